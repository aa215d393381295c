package ringtest

import (
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
)

func smallPool(l *buffers.Layout, _ *ring.SetConfig) { l.SmallCount, l.LargeCount = 64, 8 }

// exhaustion is the case "pool exhaustion and recovery".
func exhaustion(t *testing.T, b Backend) {
	w := newWorld(t, b, smallPool)
	u := w.udp(w.local, ring.Config{LargestDatagram: 2048})
	w.NoError(u.SetReceiveBuffer(1 << 20))
	peer := w.udpPeer(u.LocalAddr())
	const n = 300 // many more than there are buffers; the kernel's queue holds the rest
	for i := range n {
		w.write(peer, binary.LittleEndian.AppendUint32(nil, uint32(i)))
	}
	var held []ring.Completion
	for range 200 {
		w.poll()
		time.Sleep(50 * time.Microsecond)
	}
	held, w.kept = w.kept, nil
	w.NotEmpty(held)
	w.Less(len(held), 65)
	w.silent(5 * time.Millisecond) // nothing moves while nothing is released
	for i := 0; i < n; {
		for j := range held {
			w.Equal(uint32(i), binary.LittleEndian.Uint32(held[j].Packet.Bytes()), "lost or out of order")
			w.NoError(held[j].Packet.Release())
			i++
		}
		held = held[:0]
		for end := time.Now().Add(patience); len(w.kept) == 0 && i < n; w.poll() {
			w.True(time.Now().Before(end), "%d of %d after the buffers came back; %+v %v", i, n, u.Ring().Stats(), w.pool.Ledger())
		}
		held, w.kept = w.kept, held
	}
	w.Zero(u.Stats().Drops)
}

// oneHolder is the case "one holder against the others".
func oneHolder(t *testing.T, b Backend) {
	w := newWorld(t, b, smallPool)
	greedy := w.udp(w.local, ring.Config{LargestDatagram: 2048})
	modest := w.udp(w.local, ring.Config{LargestDatagram: 2048})
	w.NoError(greedy.SetReceiveBuffer(1 << 20))
	gp, mp := w.udpPeer(greedy.LocalAddr()), w.udpPeer(modest.LocalAddr())
	var held []ring.Completion
	for i := range 500 {
		w.write(gp, []byte("hoard"))
		if w.poll(); len(w.kept) > 0 {
			held = append(held, w.kept...)
			w.kept = nil
		}
		if i%10 == 0 {
			w.write(mp, []byte("pass"))
			c := w.next("the modest socket's packet", func(c *ring.Completion) bool { return c.Socket == modest })
			w.NoError(c.Packet.Release())
		}
	}
	// Another ring may have received the greedy socket's datagrams, and its goroutine may not have had the processor yet.
	for end := time.Now().Add(patience); greedy.Held() == 0; w.poll() {
		w.True(time.Now().Before(end), "nothing for the greedy socket: %v", w.pool.Ledger())
	}
	w.Less(len(held)+len(w.kept), 64)
	for _, c := range held {
		w.NoError(c.Packet.Release())
	}
	for i := range w.kept {
		w.NoError(w.kept[i].Packet.Release())
	}
	w.kept = nil
}

// budget is the case "budget stops and resumes reading".
func budget(t *testing.T, b Backend) {
	w := newWorld(t, b)
	stride := w.pool.Layout().Stride(buffers.Small)
	u := w.udp(w.local, ring.Config{LargestDatagram: 2048, Budget: 8 * stride})
	peer := w.udpPeer(u.LocalAddr())
	w.NoError(u.SetReceiveBuffer(1 << 20))
	const n = 200
	for range n {
		w.write(peer, []byte("x"))
	}
	for range 100 {
		w.poll()
		time.Sleep(20 * time.Microsecond)
	}
	w.GreaterOrEqual(len(w.kept), 8)
	w.NotZero(u.Ring().Stats().BudgetStops)
	w.LessOrEqual(len(w.kept), 8+b.Overshoot)
	first := len(w.kept)
	w.silentExcept(first, 5*time.Millisecond)
	for got := 0; got < n; got++ {
		c := w.event(u, ring.EventPacket, nil)
		w.NoError(c.Packet.Release())
	}
	w.Zero(u.Held())
}

// silentExcept polls for the time d and checks that nothing beyond n completions was delivered.
func (w *world) silentExcept(n int, d time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		w.poll()
		w.Len(w.kept, n)
	}
}

// releaseElsewhere is the case "release from another goroutine".
func releaseElsewhere(t *testing.T, b Backend) {
	w := newWorld(t, b)
	u, peer := w.receiver(ring.Config{LargestDatagram: 2048})
	const n = 2000
	lent := make(chan buffers.Lent, n)
	var bad, sum uint64
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for l := range lent {
			sum += uint64(binary.LittleEndian.Uint32(l.Bytes()))
			if l.Release() != nil || l.Release() == nil { // the second is one too many
				bad++
			}
		}
	}()
	want := uint64(0)
	for i := range n {
		w.write(peer, binary.LittleEndian.AppendUint32(nil, uint32(i)))
		want += uint64(i)
		c := w.event(u, ring.EventPacket, nil)
		l, err := c.Packet.Lend()
		w.NoError(err)
		w.Error(c.Packet.Release(), "a lent packet is the borrower's")
		lent <- l
	}
	close(lent)
	wg.Wait()
	w.Zero(bad)
	w.Equal(want, sum)
}

// doubleRelease is the case "double release is an error".
func doubleRelease(t *testing.T, b Backend) {
	w := newWorld(t, b)
	u, peer := w.receiver()
	w.write(peer, []byte("x"))
	c := w.event(u, ring.EventPacket, nil)
	w.NoError(c.Packet.Retain())
	w.NoError(c.Packet.Release())
	w.Equal("x", string(c.Packet.Bytes()))
	w.NoError(c.Packet.Release())
	w.ErrorIs(c.Packet.Release(), buffers.ErrStale)
	w.Nil(c.Packet.Bytes())
	w.NotZero(w.pool.Stats().StaleReleases)
}

// closeWithHeld is the case "close with packets held".
func closeWithHeld(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, peer := w.pair()
	w.write(peer, []byte("kept"))
	c := w.event(s, ring.EventPacket, nil)
	w.write(peer, []byte("never seen"))
	time.Sleep(time.Millisecond)
	w.closeAndWait(s)
	w.Equal("kept", string(c.Packet.Bytes()))
	w.NoError(c.Packet.Release())
	w.ErrorIs(s.Close(), ring.ErrClosed)
	w.ErrorIs(s.Suspend(), ring.ErrClosed)
	_, err := s.Send([]byte("x"))
	w.ErrorIs(err, ring.ErrClosed)
}

// manyStopped is the case "many stopped sockets let the ring sleep".
func manyStopped(t *testing.T, b Backend) {
	if b.Name == "fake" {
		t.Skip("a fake ring sleeps by the clock")
	}
	w := newWorld(t, b)
	const n = 100 // more than one Poll looks at
	stride := w.pool.Layout().Stride(buffers.Small)
	for range n {
		s := w.udp(w.local, ring.Config{LargestDatagram: 2048, Budget: stride})
		w.write(w.udpPeer(s.LocalAddr()), []byte("x"))
	}
	for end := time.Now().Add(patience); len(w.kept) < n; w.poll() {
		w.True(time.Now().Before(end), "%d of %d: %v", len(w.kept), n, w.set.Rings()[0].Stats().Driver)
	}
	r := w.set.Rings()[0]
	extra, err := w.pool.Alloc(1)
	w.NoError(err)
	w.NoError(extra.Release()) // something was freed, but nothing of theirs
	sleeps := 0
	for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); sleeps++ {
		w.poll()
		w.NoError(r.Wait(20 * time.Millisecond))
	}
	w.Less(sleeps, 1000, "the ring does not sleep")
	for i := range w.kept {
		w.NoError(w.kept[i].Packet.Release())
	}
	w.kept = nil
}
