package ringtest

import (
	"net/netip"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// allocation is the case "ring allocation logics".
func allocation(t *testing.T, b Backend) {
	logic := func(l ring.Logic, limit int) *world {
		return newWorld(t, b, func(_ *buffers.Layout, c *ring.SetConfig) { c.Logic, c.Limit = l, limit })
	}
	a1, a2 := netip.MustParseAddrPort("127.0.0.1:0"), netip.MustParseAddrPort("127.0.0.2:0")

	w := logic(ring.PerInterface, 0)
	w.Same(w.udp(a1).Ring(), w.udp(a2).Ring())
	w.NotSame(w.udp(a1).Ring(), w.udp(netip.MustParseAddrPort("0.0.0.0:0")).Ring(), "bound to no single interface")

	w = logic(ring.PerIP, 0)
	w.NotSame(w.udp(a1).Ring(), w.udp(a2).Ring())
	w.Same(w.udp(a1).Ring(), w.udp(a1).Ring())

	w = logic(ring.PerSocket, 0)
	w.NotSame(w.udp(a1).Ring(), w.udp(a1).Ring())

	w = logic(ring.PerInterface, 0)
	byUser := ring.PerUserID
	one := w.udp(a1, ring.Config{Alloc: &byUser, UserID: 1})
	w.Same(one.Ring(), w.udp(a1, ring.Config{Alloc: &byUser, UserID: 1}).Ring())
	w.NotSame(one.Ring(), w.udp(a1, ring.Config{Alloc: &byUser, UserID: 2}).Ring())
	w.NotSame(one.Ring(), w.udp(a1).Ring())

	for _, l := range []ring.Logic{ring.PerThread, ring.PerCore, ring.PerCoreAttach} {
		runtime.LockOSThread()
		before := sys.AffinityMask()
		w = logic(l, 0)
		r := w.udp(a1).Ring()
		w.Equal(l, r.Key().Logic)
		if l == ring.PerCoreAttach {
			w.Equal(before, sys.AffinityMask(), "set-up may be on any thread")
			w.poll()
			w.Equal([]int{int(r.Key().Value)}, sys.AffinityMask())
			w.NoError(r.Close())
			w.Equal(before, sys.AffinityMask(), "the thread is given back as it was")
		}
		runtime.UnlockOSThread()
	}

	// The limit per interface: the ring with the fewest sockets is shared; logic 11 is exempt.
	w = logic(ring.PerSocket, 2)
	r1, r2 := w.udp(a1).Ring(), w.udp(a1).Ring()
	w.NotSame(r1, r2)
	third, fourth := w.udp(a1).Ring(), w.udp(a1).Ring()
	w.NotSame(third, fourth, "spread over both")
	w.Len(w.set.Rings(), 2)
	w.NotSame(r1, w.udp(a1, ring.Config{Alloc: &byUser, UserID: 9}).Ring())
	w.Len(w.set.Rings(), 3)

	// A ring nobody uses serves the next key.
	w = logic(ring.PerSocket, 0)
	for range 5 {
		w.closeAndWait(w.udp(a1))
	}
	w.Len(w.set.Rings(), 1)

	w.ErrorContains(ring.Logic(2).Validate(), "2")
	bad := ring.Logic(12)
	_, err := w.set.NewSocket(ring.KindStream, ring.IPv4, ring.Config{Alloc: &bad})
	w.ErrorContains(err, "12")
}

// whenRings is the case "when a socket has a ring".
func whenRings(t *testing.T, b Backend) {
	w := newWorld(t, b)
	fds := []int{-7, -7, -7}
	none := func(s *ring.Socket) {
		t.Helper()
		n, err := s.RingFDs(fds)
		w.NoError(err)
		w.Zero(n)
		w.Zero(s.NumRings())
		w.Equal([]int{-7, -7, -7}, fds)
		w.Nil(s.Ring())
	}
	one := func(s *ring.Socket) int {
		t.Helper()
		n, err := s.RingFDs(fds)
		w.NoError(err)
		w.Equal(1, n)
		w.Equal(1, s.NumRings())
		fd := fds[0]
		w.GreaterOrEqual(fd, 0)
		w.Equal([]int{fd, -7, -7}, fds)
		fds[0] = -7
		return fd
	}
	if !b.Streams {
		u := w.socket(ring.KindDatagram, w.local)
		none(u)
		w.NoError(u.Bind(w.local))
		one(u)
		u = w.socket(ring.KindDatagram, w.local)
		w.NoError(u.Connect(netip.AddrPortFrom(w.local.Addr(), 9)))
		one(u)
		u = w.socket(ring.KindDatagram, w.local)
		_, err := u.SendTo([]byte("x"), w.udp(w.local).LocalAddr()) // the first send binds it
		w.NoError(err)
		one(u)
	}
	if b.Datagrams {
		return
	}
	s := w.socket(ring.KindStream, w.local)
	none(s)
	_, err := s.RingFDs(nil)
	w.Error(err)
	w.NoError(s.Bind(w.local))
	none(s)
	w.NoError(s.Listen(1))
	one(s)
	c := w.socket(ring.KindStream, w.local)
	to := s.LocalAddr()
	if !w.kernel {
		to = w.peers.Nobody() // beside a kernel connections within a host are the kernel's
	}
	w.NoError(c.Connect(to))
	one(c)
	if !w.kernel {
		return // no interface to bind to
	}
	d := w.socket(ring.KindStream, w.local)
	w.NoError(d.Bind(w.local))
	if err := d.BindToDevice(w.lo); err != nil {
		w.ErrorIs(err, unix.EPERM)
		t.Logf("TCP bind to device: not asserted: %v", err)
	} else {
		fd := one(d)
		for range 10 {
			w.poll()
			for i := range w.kept {
				w.NotEqual(d, w.kept[i].Socket, "a socket that is not connected has nothing to say")
			}
		}
		w.NoError(d.Connect(s.LocalAddr()))
		w.Equal(fd, one(d))
		w.event(d, ring.EventOut, nil)

		// It may become a listener as well.
		l := w.socket(ring.KindStream, w.local)
		w.NoError(l.BindToDevice(w.lo))
		w.NoError(l.Bind(w.local))
		w.NoError(l.Listen(0))
		one(l)
		w.dial(l)
		w.accept(l)
	}
}
