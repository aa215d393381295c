package epoll

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
)

func TestSuspendAndResume(t *testing.T) {
	w := newWorld(t)
	s, peer := w.connected(ring.Config{})
	u := w.udp(ring.Config{})
	upeer := dialUDP(t, u.LocalAddr())
	l := w.listen(ring.Config{})
	w.poll(4)
	for range 3 {
		for _, x := range []*ring.Socket{s, u, l} {
			require.NoError(t, x.Suspend())
		}
		_, err := peer.Write([]byte("stream"))
		require.NoError(t, err)
		_, err = upeer.Write([]byte("datagram"))
		require.NoError(t, err)
		third := dial(t, l.LocalAddr())
		w.quiet(nil, ^ring.Event(0))
		requireRests(t, w)
		for _, x := range []*ring.Socket{s, u, l} {
			require.NoError(t, x.Resume())
		}
		require.Equal(t, "stream", string(w.bytes(s)))
		require.Equal(t, "datagram", string(w.bytes(u)))
		require.Equal(t, third.LocalAddr().String(), w.next(nil, ring.EventNewConnection).Source.String())
	}
}

func TestStopAndStartInOneTurnIsFree(t *testing.T) {
	w := newWorld(t)
	s, _ := w.connected(ring.Config{})
	w.poll(1)
	r := w.drv.table.of(s)
	have := r.interest
	require.NotZero(t, have)
	for range 5 {
		require.NoError(t, s.Suspend())
		require.Equal(t, have, r.interest, "no epoll_ctl yet")
		require.NoError(t, s.Resume())
		require.Equal(t, have, r.interest)
	}
	require.Len(t, w.drv.deferred, 1)
}

func TestSuspendedConnectionThatBreaks(t *testing.T) {
	w := newWorld(t)
	s, peer := w.connected(ring.Config{})
	require.NoError(t, s.Suspend())
	want := pattern(30000, 1) // more than one turn reads
	_, err := peer.Write(want)
	require.NoError(t, err)
	w.quiet(s, ^ring.Event(0))
	reset(t, peer)
	c := w.next(s, ring.EventErr)
	require.True(t, c.Events.Has(rst), "%v", c.Events)
	require.ErrorIs(t, c.Err, unix.ECONNRESET)
	var got []byte
	for _, k := range append(w.kept, c) {
		got = append(got, k.Packet.Bytes()...)
	}
	require.True(t, string(want) == string(got), "%d of %d bytes", len(got), len(want))
	_ = c.Packet.Release()
	w.release()
	w.quiet(s, ^ring.Event(0))
	requireRests(t, w)
	w.close(s)
}

func TestFINWaitsForResume(t *testing.T) {
	w := newWorld(t)
	s, peer := w.connected(ring.Config{})
	require.NoError(t, s.Suspend())
	require.NoError(t, s.CloseWrite())
	_, err := peer.Write([]byte("the rest"))
	require.NoError(t, err)
	require.NoError(t, peer.Close()) // both sides are shut: a hang-up, and no error
	w.quiet(s, ^ring.Event(0))
	requireRests(t, w)
	require.NoError(t, s.Resume())
	require.Equal(t, "the rest", string(w.bytesKeeping(s)))
	require.Equal(t, fin, w.next(s, ring.EventIn).Events)
	requireRests(t, w)
	w.close(s)
}

func TestBudget(t *testing.T) {
	w := newWorld(t)
	stride := testLayout.Stride(buffers.Small)
	s, peer := w.connected(ring.Config{Budget: 4 * stride})
	want := pattern(60000, 2)
	_, err := peer.Write(want)
	require.NoError(t, err)
	var got []byte
	for len(got) < len(want) {
		c, ok := w.within(patience, s, ring.EventPacket)
		require.True(t, ok, "%d bytes", len(got))
		// Hold everything until nothing more comes.
		held := []ring.Completion{c}
		for {
			c, ok := w.within(2*time.Millisecond, s, ring.EventPacket)
			if !ok {
				break
			}
			held = append(held, c)
		}
		require.LessOrEqual(t, s.Held(), 4*stride)
		if len(got)+len(held)*2048 < len(want) {
			require.Len(t, held, 4)
			requireRests(t, w)
		}
		for _, c := range held {
			got = append(got, c.Packet.Bytes()...)
			require.NoError(t, c.Packet.Release())
		}
	}
	require.Equal(t, want, got)
}

// TestResetOverBudgetLosesNothing holds the last packets back while the connection breaks: what was received before is delivered
// once they are released, then the reset.
func TestResetOverBudgetLosesNothing(t *testing.T) {
	w := newWorld(t)
	s, peer := w.connected(ring.Config{Budget: 2 * testLayout.Stride(buffers.Small)})
	want := pattern(20000, 6)
	_, err := peer.Write(want)
	require.NoError(t, err)
	held := []ring.Completion{w.next(s, ring.EventPacket), w.next(s, ring.EventPacket)}
	w.quiet(s, ^ring.Event(0))
	reset(t, peer)
	w.quiet(s, ^ring.Event(0))
	requireRests(t, w)
	var got []byte
	for {
		for _, c := range held {
			got = append(got, c.Packet.Bytes()...)
			if c.Packet.Valid() {
				require.NoError(t, c.Packet.Release())
			}
		}
		c := w.next(s, ^ring.Event(0))
		if held = []ring.Completion{c}; c.Events.Has(ring.EventErr) {
			require.ErrorIs(t, c.Err, unix.ECONNRESET)
			got = append(got, c.Packet.Bytes()...)
			_ = c.Packet.Release()
			break
		}
	}
	require.True(t, string(want) == string(got), "%d of %d bytes", len(got), len(want))
	w.close(s)
}

func TestStarvationAndRecovery(t *testing.T) {
	layout := buffers.Layout{SmallSize: 2048, SmallCount: 8, Headroom: 192}
	w := newWorldOf(t, layout)
	u := w.udp(ring.Config{LargestDatagram: 1000})
	upeer := dialUDP(t, u.LocalAddr())
	s, peer := w.connected(ring.Config{})
	w.poll(4)
	for round := range 3 {
		// All buffers are the application's, held for sending.
		var mine []buffers.Packet
		for {
			p, err := w.pool.Alloc(1)
			if err != nil {
				break
			}
			mine = append(mine, p)
		}
		_, err := peer.Write([]byte("stream"))
		require.NoError(t, err)
		for i := range 10 {
			_, err = upeer.Write([]byte{byte(i)})
			require.NoError(t, err)
		}
		if len(mine) == 8 {
			w.quiet(nil, ^ring.Event(0))
		}
		require.Positive(t, w.ring().Stats().Starved, "round %d", round)
		// The spare that was in the driver's hands is no use to it any more: what came with it is released and taken again.
		for _, c := range w.kept {
			mine = append(mine, c.Packet)
		}
		w.kept = nil
		got := map[*ring.Socket][]byte{}
		for _, p := range mine {
			require.NoError(t, p.Release())
		}
		for len(got[s]) < 6 || len(got[u]) < 10 {
			c := w.next(nil, ring.EventPacket)
			got[c.Socket] = append(got[c.Socket], c.Packet.Bytes()...)
			require.NoError(t, c.Packet.Release())
		}
		require.Equal(t, "stream", string(got[s]))
		require.Equal(t, []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, got[u])
	}
}

// TestSpareBufferDoesNotStarveOtherRings: the last free buffer waits in one ring's driver for a socket that has nothing to read,
// while a socket of another ring starves. When the first ring sleeps the other gets it.
func TestSpareBufferDoesNotStarveOtherRings(t *testing.T) {
	w := newWorldOf(t, buffers.Layout{SmallSize: 2048, SmallCount: 4, Headroom: 192})
	logic := ring.PerSocket
	config := ring.Config{LargestDatagram: 1000, Alloc: &logic}
	idle, starving := w.udp(config), w.udp(config)
	var batch [4]ring.Completion
	poll := func(s *ring.Socket) int {
		n, err := s.Ring().Poll(batch[:])
		require.NoError(t, err)
		return n
	}
	_, err := dialUDP(t, idle.LocalAddr()).Write([]byte("hot"))
	require.NoError(t, err)
	for poll(idle) == 0 {
	}
	require.NoError(t, batch[0].Packet.Release())
	for w.pool.Ledger().Filling == 0 { // until it was read directly: nothing is found, and the buffer kept
		require.Zero(t, poll(idle))
	}
	var mine []buffers.Packet
	for range 3 {
		p, err := w.pool.Alloc(1)
		require.NoError(t, err)
		mine = append(mine, p)
	}
	_, err = dialUDP(t, starving.LocalAddr()).Write([]byte("urgent"))
	require.NoError(t, err)
	for starving.Ring().Stats().Starved == 0 {
		require.Zero(t, poll(starving))
	}
	require.NoError(t, idle.Ring().Wait(0))
	require.Zero(t, w.pool.Ledger().Filling)
	require.Equal(t, 1, poll(starving))
	require.Equal(t, "urgent", string(batch[0].Packet.Bytes()))
	require.NoError(t, batch[0].Packet.Release())
	for _, p := range mine {
		require.NoError(t, p.Release())
	}
}

func TestStarvedConnectionThatBreaks(t *testing.T) {
	layout := buffers.Layout{SmallSize: 2048, SmallCount: 4, Headroom: 192}
	w := newWorldOf(t, layout)
	s, peer := w.connected(ring.Config{})
	w.poll(1)
	var mine []buffers.Packet
	for {
		p, err := w.pool.Alloc(1)
		if err != nil {
			break
		}
		mine = append(mine, p)
	}
	_, err := peer.Write(pattern(9000, 1))
	require.NoError(t, err)
	w.quiet(s, ring.EventErr)
	reset(t, peer)
	w.quiet(s, ring.EventErr)
	for _, p := range mine {
		require.NoError(t, p.Release())
	}
	n := 0
	for {
		c := w.next(s, ring.EventPacket|ring.EventErr)
		n += c.Packet.Len()
		if c.Packet.Valid() {
			require.NoError(t, c.Packet.Release())
		}
		if c.Events.Has(ring.EventErr) {
			require.ErrorIs(t, c.Err, unix.ECONNRESET)
			break
		}
	}
	require.Equal(t, 9000, n)
	w.close(s)
}
