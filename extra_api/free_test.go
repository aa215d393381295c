package extraapi_test

import (
	"testing"

	"github.com/socketxtreme/socketxtreme/buffers"
	extraapi "github.com/socketxtreme/socketxtreme/extra_api"
	"github.com/socketxtreme/socketxtreme/ring"
)

// receive is n packets in the application's hands.
func (w *world) receive(s *ring.Socket, n int) (list []buffers.Packet) {
	w.t.Helper()
	p := w.peer()
	for range n {
		p.write([]byte("x"), s.LocalAddr())
		list = append(list, w.event(s, ring.EventPacket).Packet)
	}
	return list
}

// With one that cannot be freed none is, and the error says which and why: VMA stops there and does not say how many it had freed.
func TestFreePackets(t *testing.T) {
	onEach(t, everyKind, func(w *world) {
		s, other := w.udp(), newWorld(w.t, w.kind)
		stranger := other.udp()
		foreign := other.receive(stranger, 1)[0]
		p := w.receive(s, 3)
		stale := w.receive(s, 1)[0]
		w.NoError(stale.Release())
		for want, bad := range map[error]buffers.Packet{buffers.ErrOtherPool: foreign, buffers.ErrStale: stale, buffers.ErrNone: {}} {
			freed, err := extraapi.FreePackets(s, p[0], p[1], bad, p[2])
			w.Zero(freed)
			var e *extraapi.FreeError
			w.ErrorAs(err, &e)
			w.Equal(2, e.Index)
			w.ErrorIs(err, want)
			w.ErrorContains(err, "packet 2")
			for i := range p {
				w.True(p[i].Valid(), "nothing is half applied")
			}
			c := []ring.Completion{{Packet: p[0]}, {Packet: bad}}
			freed, err = extraapi.FreeCompletions(s, c)
			if want == buffers.ErrNone {
				w.NoError(err)
				w.Equal(1, freed)
				p[0] = w.receive(s, 1)[0]
				continue
			}
			w.Zero(freed)
			w.ErrorIs(err, want)
			w.True(c[0].Packet.Valid())
		}
		w.True(foreign.Valid())
		freed, err := extraapi.FreePackets(s, p[0], p[1], p[0], p[2])
		w.Equal(3, freed, "one that is there twice is freed once, and the others are too")
		w.ErrorIs(err, buffers.ErrStale)
		w.ErrorContains(err, "packet 2")
		freed, err = extraapi.FreePackets(s)
		w.Zero(freed)
		w.NoError(err)
		_, err = extraapi.FreePackets(stranger, foreign)
		w.NoError(err)

		p = w.receive(s, 1)
		w.NoError(p[0].Retain()) // two references, so that twice is right
		freed, err = extraapi.FreePackets(s, p[0], p[0])
		w.NoError(err)
		w.Equal(2, freed)

		c := []ring.Completion{{Packet: w.receive(s, 1)[0]}}
		_, err = extraapi.FreeCompletions(s, c)
		w.NoError(err)
		freed, err = extraapi.FreeCompletions(s, c)
		w.Zero(freed, "they are zero now")
		w.NoError(err)
		_, err = extraapi.FreePackets(w.socket(ring.KindDatagram), p[0])
		w.ErrorIs(err, ring.ErrState)
	})
}

// Another goroutine has Lent; packets it is refused.
func TestFreePacketsElsewhere(t *testing.T) {
	onEach(t, everyKind, func(w *world) {
		s := w.udp()
		p := w.receive(s, 2)
		failed := make(chan error)
		go func() { _, err := extraapi.FreePackets(s, p...); failed <- err }()
		w.ErrorIs(<-failed, ring.ErrOwner)
		w.True(p[0].Valid())
		_, err := extraapi.FreePackets(s, p[0])
		w.NoError(err)
		lent, err := p[1].Lend()
		w.NoError(err)
		_, err = extraapi.FreePackets(s, p[1])
		w.ErrorIs(err, buffers.ErrStale, "it is lent")
		go func() { failed <- lent.Release() }()
		w.NoError(<-failed)
		w.ErrorIs(lent.Release(), buffers.ErrStale)
	})
}

// After the whole owner is gone packets that were held can still be freed.
func TestFreeAfterTheRingClosed(t *testing.T) {
	onEach(t, everyKind, func(w *world) {
		s := w.udp()
		p := w.receive(s, 1)
		w.NoError(s.Ring().Close())
		w.Equal("x", string(p[0].Bytes()))
		freed, err := extraapi.FreePackets(s, p...)
		w.NoError(err)
		w.Equal(1, freed)
	})
}
