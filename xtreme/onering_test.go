package xtreme_test

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	extraapi "github.com/socketxtreme/socketxtreme/extra_api"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// onering polls one ring by its descriptor, as a program written for VMA does, and nothing else.
type onering struct {
	*world
	ring *ring.Ring
	done [8]xtreme.Completion
}

// next polls and sleeps until the ring has a completion that matches; others are released.
func (o *onering) next(what string, match func(*xtreme.Completion) bool) xtreme.Completion {
	o.t.Helper()
	for end := time.Now().Add(patience); ; {
		n, err := extraapi.Poll(o.engine, o.ring.FD(), o.done[:])
		o.NoError(err)
		for i := range o.done[:n] {
			if match(&o.done[i]) {
				for j := i + 1; j < n; j++ {
					_ = o.done[j].Packet.Release()
				}
				return o.done[i]
			}
			_ = o.done[i].Packet.Release()
		}
		o.True(time.Now().Before(end), "waiting for %s", what)
		if n == 0 {
			o.NoError(o.ring.Wait(100 * time.Millisecond))
		}
	}
}

// A program that polls its listener's ring and nothing else has all that its connections need, whatever other rings the poller has and whatever
// the allocation logic: data, sends, the end, time-outs, packets that other goroutines return, and what Poller.Post brings.
func TestPollingTheListenersRingIsEnough(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		for _, logic := range []ring.Logic{ring.PerInterface, ring.PerIP, ring.PerSocket} {
			t.Run(logic.String(), func(t *testing.T) {
				w := newWorld(t, kind, xtreme.PollerConfig{RingLogic: xtreme.Ptr(logic)})
				w.udp(netip.MustParseAddrPort("127.0.0.7:0")) // takes the poller's first ring, where the listener has another one
				l := w.listen()
				o := &onering{world: w, ring: l.Ring()}
				w.Equal(logic != ring.PerInterface, o.ring != w.poller.Rings()[0])

				conn := make(chan *net.TCPConn, 1)
				go func() { conn <- w.dial(l.LocalAddr()) }()
				s := o.next("a connection", func(c *xtreme.Completion) bool { return c.Events.Has(xtreme.EventNewConnection) }).Socket
				peer := <-conn
				w.Same(o.ring, s.Ring(), "it stays on its listener's ring")

				data := func(c *xtreme.Completion) bool { return c.Socket == s && c.Events.Has(xtreme.EventPacket) }
				w.write(peer, "request")
				c := o.next("a packet", data)
				w.Equal("request", string(c.Packet.Bytes()))
				w.NoError(s.SendPacket(c.Packet, netip.AddrPort{}, 7)) // the ring sends it
				o.next("SENT", func(c *xtreme.Completion) bool { return c.Events.Has(xtreme.EventSent) && c.Token == 7 })
				b := make([]byte, 7)
				_, err := io.ReadFull(peer, b)
				w.NoError(err)
				w.Equal("request", string(b))

				w.write(peer, "lent")
				c = o.next("a packet", data)
				lent, err := c.Packet.Lend()
				w.NoError(err)
				returned := make(chan error, 1)
				go func() { returned <- lent.Release() }()
				w.NoError(<-returned)

				posted := false
				w.NoError(w.poller.Post(func() { posted = true }))
				dialled, err := w.poller.DialTCP(w.blackHole(), xtreme.DialConfig{Timeout: 20 * time.Millisecond,
					SocketConfig: xtreme.SocketConfig{RingLogic: xtreme.Ptr(ring.PerInterface)}})
				w.NoError(err)
				if dialled.Ring() == o.ring { // a deadline of the ring
					c = o.next("a time-out", func(c *xtreme.Completion) bool { return c.Socket == dialled && c.Events.Has(xtreme.EventHup) })
					w.ErrorIs(c.Err, unix.ETIMEDOUT)
				}
				w.NoError(peer.Close())
				o.next("FIN", func(c *xtreme.Completion) bool { return c.Socket == s && c.Events.Has(xtreme.EventRdHup) })
				w.NoError(s.Close())
				o.next("CLOSED", func(c *xtreme.Completion) bool { return c.Socket == s && c.Events.Has(xtreme.EventClosed) })
				w.True(posted)
			})
		}
	})
}

// A UDP socket that is offloaded has its own ring as well: what comes by the link and what comes by the kernel's socket beside it.
func TestPollingAnOffloadedSocketsRingIsEnough(t *testing.T) {
	w := newCabled(t)
	s := w.udp(w.at(0))
	w.Equal("bypass", s.Path().Tier, s.Path())
	o := &onering{world: w.world, ring: s.Ring()}
	data := func(c *xtreme.Completion) bool { return c.Socket == s && c.Events.Has(xtreme.EventPacket) }
	w.write(w.net.Dial(s.LocalAddr()), "by the link")
	c := o.next("a datagram", data)
	w.Equal("by the link", string(c.Packet.Bytes()))
	w.NoError(c.Packet.Release())
	w.write(w.peer(s.LocalAddr()), "from this host")
	c = o.next("a datagram", data)
	w.Equal("from this host", string(c.Packet.Bytes()))
	w.True(c.ViaKernel)
	w.NoError(c.Packet.Release())
	posted := make(chan bool, 1)
	w.NoError(w.poller.Post(func() { posted <- true }))
	w.write(w.peer(s.LocalAddr()), "more")
	w.NoError(o.next("a datagram", data).Packet.Release())
	w.True(<-posted)
}
