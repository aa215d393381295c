package repair

import (
	"crypto/sha256"
	"io"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// receiveBuffer is a change of newWorld.
func receiveBuffer(size int) func(fd int) error {
	return func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, size) }
}

// queued is the length of a queue of our socket.
func (w *world) queued(request uint) int {
	n, err := unix.IoctlGetInt(w.fd, request)
	w.NoError(err)
	return n
}

// peerInfo is what the kernel knows of the connection at the other end.
func (w *world) peerInfo() (info *unix.TCPInfo) {
	raw, err := w.peer.SyscallConn()
	w.NoError(err)
	w.NoError(raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }))
	w.NoError(err)
	return info
}

// A kernel goes on sending while its connection is read: its pacing timer, its loss probe, the tasklet that follows a frame. What leaves after
// SendNext was computed the peer acknowledges: where the connection goes on, that must not be an acknowledgement of what was never sent.
func TestKernelSendsWhileItIsFrozen(t *testing.T) {
	w := newWorld(t, receiveBuffer(8<<20), func(fd int) error {
		return unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno") // CUBIC's slow start ends early here
	})
	v0, err := netlink.LinkByName(w.net.Device(0))
	w.NoError(err)
	w.NoError(netlink.LinkSetGSOMaxSegs(v0, 2)) // short bursts
	const warm, unread, total = 2 << 20, 4 << 20, 3 << 20
	w.NoError(unix.SetsockoptInt(w.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 4<<20))
	x := &exchange{world: w, sent: newStream(1, warm+total), back: newStream(2, unread), arrived: sha256.New(), buffer: make([]byte, 256<<10)}
	received := make(chan [32]byte, 1)
	go func() {
		h := sha256.New()
		_, _ = io.CopyN(h, w.peer, warm+total)
		received <- [32]byte(h.Sum(nil))
	}()
	write := func(left int) {
		for x.sent.left+len(x.sent.rest) > left {
			n, err := unix.Write(w.fd, x.sent.next(64<<10))
			if n > 0 {
				x.sent.rest = x.sent.rest[n:]
			}
			if err != nil {
				w.ErrorIs(err, unix.EAGAIN)
				_, _ = unix.Poll([]unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLOUT}}, 10)
			}
		}
	}
	write(total) // the congestion window grows
	w.until("all is acknowledged", func() bool { return w.queued(unix.SIOCOUTQ) == 0 })
	// What is unread takes a millisecond to be copied. Meanwhile the pacing timer has two segments sent every 290 µs.
	for !x.back.over() {
		n, err := w.peer.Write(x.back.next(64 << 10))
		w.NoError(err)
		x.back.rest = x.back.rest[n:]
	}
	w.until("it has arrived", func() bool { return w.queued(unix.SIOCINQ) == unread })
	w.NoError(unix.SetsockoptInt(w.fd, unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE, 10_000_000))
	w.NoError(w.guard.Claim(w.flow)) // nothing is acknowledged any more
	write(0)
	w.until("more is in flight than a new connection sends at first", func() bool {
		return w.queued(unix.SIOCOUTQ)-w.queued(unix.SIOCOUTQNSD) > 20*1448
	})
	f, err := Freeze(w.fd)
	w.NoError(err)
	s := &f.State
	w.NotEmpty(s.Sent)
	w.NotEmpty(s.Unsent)
	time.Sleep(20 * time.Millisecond) // nothing leaves either before the socket is closed
	w.LessOrEqual(w.peerInfo().Bytes_received, uint64(warm+total-len(s.Unsent)), "the peer has more than SendNext says")
	w.NoError(f.Close())
	c, err := Create(s)
	w.NoError(err)
	w.NoError(w.guard.Release(w.flow))
	w.fd, err = c.Activate()
	w.NoError(err)
	done := false
	w.until("all has arrived, in both directions", func() bool {
		if x.got < unread {
			n, err := unix.Read(w.fd, x.buffer)
			if err == nil {
				x.arrived.Write(x.buffer[:n])
				x.got += n
			}
		}
		select {
		case h := <-received:
			w.Equal([32]byte(x.sent.hash.Sum(nil)), h)
			done = true
		default:
		}
		return done && x.got == unread
	})
	w.Equal([32]byte(x.back.hash.Sum(nil)), [32]byte(x.arrived.Sum(nil)))
}
