package repair

import (
	"testing"

	"golang.org/x/sys/unix"
)

// fill has the peer write until our window is shut, while nothing is read, and returns how many bytes are unread.
func (w *world) fill() (unread int) {
	w.t.Helper()
	b := make([]byte, 64<<10)
	raw, err := w.peer.SyscallConn()
	w.NoError(err)
	w.until("the window is shut", func() bool {
		w.NoError(raw.Write(func(fd uintptr) bool {
			_, _ = unix.Write(int(fd), b) // until its queue is full
			return true
		}))
		i := w.peerInfo()
		return i.Snd_wnd == 0 && i.Unacked == 0 && i.Notsent_bytes > 0
	})
	return w.queued(unix.SIOCINQ)
}

// sends reports whether the peer sends again: its segments stay unacknowledged, because the guard drops them.
func (w *world) sends() bool { return w.peerInfo().Unacked > 0 }

// A window that was shut when the connection moved opens as soon as the data is read: the new socket tells the peer, which does not have to ask.
// The guard keeps the peer's questions away.
func TestShutWindowOpensAfterAMove(t *testing.T) {
	w := newWorld(t, receiveBuffer(64<<10))
	unread := w.fill()
	w.NoError(w.guard.Claim(w.flow))
	f, err := Freeze(w.fd)
	w.NoError(err)
	w.Zero(f.State.ReceiveWindow)
	w.Len(f.State.Received, unread)
	w.NoError(f.Close())
	c, err := Create(&f.State)
	w.NoError(err)
	w.fd, err = c.Activate()
	w.NoError(err)
	w.read(unread)
	w.until("the peer sends", w.sends)
}

// A connection of another stack moves while its application holds all that the window had room for: the kernel's socket has nothing to read, and
// tells the peer all the same.
func TestShutWindowOpensWithoutARead(t *testing.T) {
	w := newWorld(t, receiveBuffer(64<<10))
	w.fill()
	w.NoError(w.guard.Claim(w.flow))
	f, err := Freeze(w.fd)
	w.NoError(err)
	w.NoError(f.Close())
	f.State.Received = nil
	c, err := Create(&f.State)
	w.NoError(err)
	w.fd, err = c.Activate()
	w.NoError(err)
	w.until("the peer sends", w.sends)
	w.Zero(w.queued(unix.SIOCINQ))
}

// A move that comes to nothing leaves the window as the peer knows it.
func TestShutWindowOpensAfterResume(t *testing.T) {
	w := newWorld(t, receiveBuffer(64<<10))
	unread := w.fill()
	w.NoError(w.guard.Claim(w.flow))
	f, err := Freeze(w.fd)
	w.NoError(err)
	// As much room as a reader makes that reads a part without the window opening.
	w.NoError(unix.SetsockoptInt(w.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 128<<10))
	w.NoError(f.Resume())
	w.read(unread)
	w.until("the peer sends", w.sends)
}

// read reads n bytes of the connection.
func (w *world) read(n int) {
	for b := make([]byte, 32<<10); n > 0; {
		got, err := unix.Read(w.fd, b[:min(n, len(b))])
		w.NoError(err)
		n -= got
	}
}
