//go:build !race

package uring_test

import (
	"net"
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// kernelSocket is the descriptor of a Go connection: net's own calls allocate.
func kernelSocket(w *world, c syscall.Conn) (fd int) {
	raw, err := c.SyscallConn()
	w.NoError(err)
	w.NoError(raw.Control(func(p uintptr) { fd = int(p) }))
	return fd
}

func TestNoAllocation(t *testing.T) {
	w := newWorld(t)
	s, conn := w.pair()
	hot := w.udp()
	for range 3 {
		w.udp()
	}
	cold := w.udp()
	r := s.Ring()
	var done [8]ring.Completion
	msg := make([]byte, 64)
	in := make([]byte, 1<<16)
	failures := 0
	until := func(e ring.Event) {
		for range 1_000_000 {
			n, err := r.Poll(done[:])
			if err != nil {
				failures++
			}
			for i := range done[:n] {
				if done[i].Events.Has(ring.EventPacket) {
					if done[i].Packet.Release() != nil {
						failures++
					}
				}
				if done[i].Events.Has(e) {
					return
				}
			}
		}
		failures++
	}
	stream := kernelSocket(w, conn)
	turn := func(fd int, send func() error) func() {
		return func() {
			if _, err := unix.Write(fd, msg); err != nil {
				failures++
			}
			until(ring.EventPacket)
			if send() != nil {
				failures++
			}
			for range 1000 {
				if n, _ := unix.Read(fd, in); n > 0 {
					return
				}
			}
			failures++
		}
	}
	datagrams := func(u *ring.Socket) func() {
		peer := w.peerOf(u)
		to := peer.LocalAddr().(*net.UDPAddr).AddrPort()
		return turn(kernelSocket(w, peer), func() error { _, err := u.SendTo(msg, to); return err })
	}
	packets := func(n int) func() {
		return func() {
			p, err := w.pool.Alloc(n)
			if err != nil || s.SendPacket(p, netip.AddrPort{}, 1) != nil {
				failures++
			}
			// Both in turn: the kernel lets go of the packet when the peer's side has acknowledged it, which reading hastens.
			for got, sent := 0, false; got < n || !sent; {
				k, err := r.Poll(done[:])
				if err != nil {
					failures++
				}
				for i := range done[:k] {
					sent = sent || done[i].Events.Has(ring.EventSent)
				}
				m, err := unix.Read(stream, in)
				if err != nil && err != unix.EAGAIN {
					failures++
				}
				got += max(m, 0)
			}
		}
	}
	for _, c := range []struct {
		name string
		f    func()
	}{
		{"idle", func() { _, _ = r.Poll(done[:]) }},
		{"stream", turn(stream, func() error { _, err := s.Send(msg); return err })},
		{"directly read datagrams", datagrams(hot)},
		{"datagrams by multishot", datagrams(cold)},
		{"copied packets", packets(100)},
		{"zero-copy packets", packets(16384)},
		{"arm", func() { _, _ = r.Arm(); _, _ = r.Poll(done[:]) }},
	} {
		for range 50 {
			c.f()
		}
		w.Zero(testing.AllocsPerRun(500, c.f), c.name)
		w.Zero(failures, c.name)
	}
}
