package memory_test

import (
	"bytes"
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/memory"
)

// A connection changes its transport in mid-stream: what is under way at the old link completes there, nothing is lost, doubled or out of order
// either way, user data, deadlines and tokens stay, and all that is told is PATH.
func TestChangeOfTransportInMidStream(t *testing.T) {
	x := makeRig(t, quick(), true)
	s, peer := x.pair()
	other, otherPeer := x.pair()
	x.NoError(s.SetUserData(77))
	x.NoError(s.SetReadDeadline(time.Now().Add(200 * time.Millisecond)))
	x.host.Link().Impair(memory.Impairment{Hold: 3 * time.Millisecond, Delay: time.Millisecond})
	x.poll()

	const n = 24
	var want []byte
	for i := range n {
		p := x.packet(9000)
		for k := range p.Bytes() {
			p.Bytes()[k] = byte(i*7 + k)
		}
		want = append(want, p.Bytes()...)
		x.NoError(s.SendPacket(p, netip.AddrPort{}, uint64(i)))
	}
	theirs := bytes.Repeat([]byte("to the ring "), 20_000)
	go func() { _, _ = peer.Write(theirs) }()
	got := make(chan []byte, 1)
	go func() {
		b := make([]byte, len(want))
		k, _ := io.ReadFull(peer, b)
		got <- b[:k]
	}()

	var received []byte
	var events ring.Event
	sent, paths, moved := 0, 0, false
	take := func() {
		for _, c := range x.kept {
			switch {
			case c.Events.Has(ring.EventPath):
				x.Equal(ring.EventPath, c.Events&^(ring.EventPacket|ring.EventSent), "%v", c.Events)
				paths++
			}
			if c.Socket == other {
				continue
			}
			x.Equal(uint64(77), c.UserData)
			events |= c.Events
			if c.Events.Has(ring.EventPacket) {
				received = append(received, c.Packet.Bytes()...)
				x.NoError(c.Packet.Release())
			}
			if c.Events.Has(ring.EventSent) {
				x.NoError(c.Err)
				x.Equal(uint64(sent), c.Token)
				sent++
			}
			if c.Events.Has(ring.EventIn) {
				x.ErrorIs(c.Err, ring.ErrDeadline)
			}
		}
		x.kept = x.kept[:0]
	}
	done := x.until(func() bool {
		take()
		if sent >= 3 && !moved {
			moved = true
			x.NotZero(x.pool.Ledger().Transmitting)
			x.NoError(x.host.MoveTo(x.spare))
		}
		return sent == n && len(received) == len(theirs) && events.Has(ring.EventIn)
	}, 10*time.Second)
	x.True(done, "%d SENT, %d of %d bytes, %v", sent, len(received), len(theirs), events)
	x.True(bytes.Equal(want, <-got))
	x.True(bytes.Equal(theirs, received))
	x.Equal(2, paths, "once for each connection")
	x.Equal(ring.EventPacket|ring.EventSent|ring.EventPath|ring.EventIn, events)
	x.Same(x.spare, ring.TransportOf(s))
	x.Zero(x.host.Protocol().Len())
	x.Equal(2, x.spare.Protocol().Len())

	// Both go on, and end, over the new link; a listener that stayed behind goes on as well.
	before := x.host.Link().Stats().Sent
	_, err := other.Send([]byte("still here"))
	x.NoError(err)
	b := make([]byte, 10)
	_, err = io.ReadFull(otherPeer, b)
	x.NoError(err)
	x.Equal("still here", string(b))
	x.NoError(peer.CloseWrite())
	x.event(s, ring.EventIn|ring.EventRdHup, nil)
	x.NoError(s.Close())
	x.event(s, ring.EventClosed, nil)
	data, err := x.all(peer)
	x.ErrorIs(err, io.EOF)
	x.Empty(data)
	x.Equal(before, x.host.Link().Stats().Sent, "nothing leaves over the old link")
	x.pair()
	x.Error(x.spare.MoveTo(x.host))
}
