package ringtest

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// A callback sees nothing of a suspended socket. What the driver had under way waits, and the callback sees it after Resume, in Poll and in
// order.
func TestACallbackSeesNothingOfASuspendedSocket(t *testing.T) {
	for _, mode := range []ring.Mode{ring.Completions, ring.Callback} {
		t.Run(mode.String(), func(t *testing.T) {
			sc := newScript(t)
			u := sc.socket(ring.KindDatagram, loopback)
			var lengths []int
			sc.NoError(u.SetReceiveMode(mode, func(_ *ring.Socket, c *ring.Completion) ring.Verdict {
				lengths = append(lengths, c.Packet.Len())
				if c.Packet.Len() == 2 {
					return ring.Drop
				}
				return ring.Keep
			}))
			sc.NoError(u.Bind(loopback))
			datagram := func(n int) func(*ring.Sink) {
				return func(k *ring.Sink) {
					p := sc.packet(u)
					sc.NoError(p.SetLen(n))
					k.Datagram(u, p, &ring.Meta{})
				}
			}
			sc.turn(8)
			sc.NoError(u.Suspend())
			sc.Empty(sc.turn(8, datagram(1), datagram(2), datagram(3)))
			sc.Empty(lengths, "suspended")
			sc.NoError(u.Resume())
			sc.Empty(lengths, "only inside Poll")
			got := sc.turn(8, datagram(4))
			sc.Equal([]int{1, 2, 3, 4}, lengths)
			if mode == ring.Completions {
				got = append(got, sc.turn(8)...)
				sc.events(got, ring.EventPacket, ring.EventPacket, ring.EventPacket)
				return
			}
			sc.NotEmpty(got)
			for i := range got {
				sc.Equal(ring.EventIn, got[i].Events)
			}
			var done [8]ring.Completion
			n, err := u.Receive(done[:])
			sc.NoError(err)
			sc.Equal(3, n)
			for i, want := range []int{1, 3, 4} {
				sc.Equal(want, done[i].Packet.Len())
				sc.NoError(done[i].Packet.Release())
			}
		})
	}
}

// A callback that suspends its socket sees no more of it, in the same batch; closing it releases what waits.
func TestACallbackThatSuspends(t *testing.T) {
	sc := newScript(t)
	u := sc.socket(ring.KindDatagram, loopback)
	seen := 0
	sc.NoError(u.SetReceiveMode(ring.Completions, func(s *ring.Socket, _ *ring.Completion) ring.Verdict {
		seen++
		sc.NoError(s.Suspend())
		return ring.Keep
	}))
	sc.NoError(u.Bind(loopback))
	datagram := func(k *ring.Sink) { k.Datagram(u, sc.packet(u), &ring.Meta{}) }
	sc.turn(8, datagram, datagram, datagram)
	sc.Equal(1, seen)
	packets, _ := u.Waiting()
	sc.Equal(3, packets)
	sc.NoError(u.Resume())
	sc.turn(8)
	sc.Equal(2, seen, "it suspended again")
	sc.NoError(u.Close())
	sc.events(sc.turn(8), ring.EventClosed)
	sc.Equal(2, seen)
}

// A connection that fails while it is suspended delivers what waits, by its callback, and then the failure.
func TestASuspendedSocketWithACallbackFails(t *testing.T) {
	sc := newScript(t)
	u := sc.socket(ring.KindStream, loopback)
	seen := 0
	sc.NoError(u.SetReceiveMode(ring.Completions, func(*ring.Socket, *ring.Completion) ring.Verdict { seen++; return ring.Keep }))
	sc.NoError(u.Bind(loopback))
	sc.NoError(u.Listen(0))
	sc.dial(u)
	child := sc.accept(u).Socket
	sc.turn(8)
	sc.NoError(child.Suspend())
	sc.Empty(sc.turn(8, sc.data(child), sc.data(child)))
	sc.Zero(seen)
	got := sc.turn(8, func(k *ring.Sink) { k.Failed(child, unix.ECONNRESET) })
	sc.events(got, ring.EventPacket, ring.EventPacket|ring.EventIn|ring.EventErr|ring.EventHup|ring.EventRdHup)
	sc.Equal(2, seen)
}
