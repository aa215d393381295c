package ringtest

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
)

// starvedBesideOther: a driver holds buffers that it has taken ahead, and returns them when its ring is about to sleep. A socket of another
// ring of the same owner that has none gets it then, although its ring was armed before.
func starvedBesideOther(t *testing.T, b Backend) {
	w := newWorld(t, b, smallPool, func(_ *buffers.Layout, c *ring.SetConfig) { c.Logic = ring.PerSocket })
	config := ring.Config{LargestDatagram: 2048}
	u, other := w.udp(w.local, config), w.udp(w.local, config)
	w.warmUp(u)
	w.warmUp(other)
	w.starve(u, func() {
		var fds []unix.PollFd
		for _, r := range w.set.Rings() { // that of u first
			pending, err := r.Arm()
			w.NoError(err)
			if pending {
				return
			}
			fds = append(fds, unix.PollFd{Fd: int32(r.FD()), Events: unix.POLLIN})
		}
		n, err := unix.Poll(fds, int(patience/time.Millisecond))
		for err == unix.EINTR {
			n, err = unix.Poll(fds, int(patience/time.Millisecond))
		}
		w.NoError(err)
		w.NotZero(n, "asleep beside %d free buffers; %+v", w.pool.Free(buffers.Small), u.Ring().Stats())
	})
}

// warmUp lets the socket receive a datagram, after which its driver may hold a spare buffer.
func (w *world) warmUp(u *ring.Socket) {
	w.t.Helper()
	w.write(w.udpPeer(u.LocalAddr()), []byte("x"))
	w.release(w.event(u, ring.EventPacket, nil))
	for range 100 {
		w.poll()
	}
}

// starve takes every free buffer, sends to the socket until it has none, and checks that the next datagram arrives although nothing is
// released: the buffer that a driver returns before it sleeps must suffice.
func (w *world) starve(u *ring.Socket, sleep func()) {
	w.t.Helper()
	var taken []buffers.Packet
	defer func() {
		for _, p := range taken {
			w.NoError(p.Release())
		}
	}()
	drain := func() {
		for w.pool.Free(buffers.Small) > 0 {
			p, err := w.pool.Alloc(1)
			w.NoError(err)
			taken = append(taken, p)
		}
	}
	drain()
	r := u.Ring()
	peer := w.udpPeer(u.LocalAddr())
	sent, got := 0, 0
	received := func() {
		for w.poll(); len(w.kept) > 0; got++ {
			w.release(w.kept[0]) // the socket holds nothing: its budget does not stop it
			w.kept = w.kept[1:]
		}
	}
	for end := time.Now().Add(patience); r.Stats().Starved == 0; drain() {
		w.True(time.Now().Before(end), "%d of %d datagrams came and the socket is not starved: %+v", got, sent, r.Stats())
		if sent == got {
			_, err := peer.Write([]byte("x"))
			w.NoError(err)
			sent++
		}
		received()
	}
	// The others look whether they have something, which may take a spare buffer; nothing is released, so nothing else changes.
	for range 100 {
		received()
	}
	if got == sent {
		w.t.Skip("the starved socket found a buffer by itself: this kind of ring keeps none back")
	}
	for end := time.Now().Add(patience); got < sent; received() {
		w.True(time.Now().Before(end), "%d of %d; %+v; %v", got, sent, r.Stats(), w.pool.Ledger())
		if w.pool.Ledger().Filling == 0 && w.pool.Free(buffers.Small) == 0 {
			w.t.Skip("no driver has a spare buffer: this kind of ring keeps none back")
		}
		sleep()
	}
}
