package ringtest

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// shortDir makes a directory with a short name: those of the testing package are too long for sun_path.
func (w *world) shortDir() string {
	w.t.Helper()
	dir, err := os.MkdirTemp("", "ring")
	w.NoError(err)
	w.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// listenUnix opens a unix-domain listener on the ring.
func (w *world) listenUnix(name string, c ...ring.Config) *ring.Socket {
	w.t.Helper()
	var config ring.Config
	if len(c) > 0 {
		config = c[0]
	}
	l, err := w.set.NewUnix(config)
	w.NoError(err)
	w.NoError(l.BindUnix(name))
	w.NoError(l.Listen(0))
	return l
}

// dialUnix connects a kernel socket to a unix-domain listener.
func (w *world) dialUnix(name string) *net.UnixConn {
	w.t.Helper()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: name, Net: "unix"})
	w.NoError(err)
	w.NoError(c.SetDeadline(time.Now().Add(6 * patience)))
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// unixAccept is the case "unix: accept, echo, FIN".
func unixAccept(t *testing.T, b Backend) {
	w := newWorld(t, b)
	for _, name := range []string{filepath.Join(w.shortDir(), "s"), fmt.Sprintf("@ringtest %s %d", b.Name, os.Getpid())} {
		l := w.listenUnix(name)
		w.True(l.Unix())
		w.Equal(name, l.LocalUnix())
		w.False(l.LocalAddr().IsValid())
		peer := w.dialUnix(name)
		c := w.accept(l)
		s := c.Socket
		w.True(s.Unix())
		w.Equal(ring.KindStream, s.Kind())
		w.False(c.Source.IsValid() || c.Destination.IsValid() || s.RemoteAddr().IsValid())
		w.Equal([]string{name, ""}, []string{s.LocalUnix(), s.RemoteUnix()})

		w.write(peer, []byte("question"))
		c = w.event(s, ring.EventPacket, nil)
		w.Equal("question", string(c.Packet.Bytes()))
		w.release(c)
		_, err := s.Send([]byte("ans"))
		w.NoError(err)
		_, err = s.SendVector([][]byte{[]byte("w"), []byte("er")}, netip.AddrPort{})
		w.NoError(err)
		big := make([]byte, 20_000) // a size that TCP sends without a copy
		for i := range big {
			big[i] = byte(i / 7)
		}
		w.NoError(s.SendPacket(w.packet(big), netip.AddrPort{}, 9))
		got := make([]byte, 6+len(big))
		read := make(chan error, 1)
		go func() { _, err := io.ReadFull(peer, got); read <- err }()
		sent := w.event(s, ring.EventSent, nil)
		w.Equal(uint64(9), sent.Token)
		w.NoError(<-read)
		w.Equal("answer", string(got[:6]))
		w.Equal(big, got[6:])

		w.NoError(peer.CloseWrite())
		w.event(s, ring.EventIn|ring.EventRdHup, nil)
		_, err = s.Send([]byte("still"))
		w.NoError(err)
		w.NoError(s.CloseWrite())
		rest, err := io.ReadAll(peer)
		w.NoError(err)
		w.Equal("still", string(rest))
		w.closeAndWait(s)
		w.closeAndWait(l)
		_, err = net.Dial("unix", name)
		w.Error(err)
		w.NoFileExists(name)
	}
	// Zero-copy sending is not given up for it.
	w.Equal(b.Caps, w.set.Rings()[0].Caps())
}

// unixDial is the case "unix: dial".
func unixDial(t *testing.T, b Backend) {
	w := newWorld(t, b)
	name := filepath.Join(w.shortDir(), "s")
	kernel, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	w.NoError(err)
	s, err := w.set.NewUnix(ring.Config{})
	w.NoError(err)
	w.NoError(s.ConnectUnix(name))
	s.SetUserData(4711)
	w.Equal(uint64(4711), w.event(s, ring.EventOut, nil).UserData)
	w.Equal(name, s.RemoteUnix())
	peer, err := kernel.AcceptUnix()
	w.NoError(err)
	_, err = s.Send([]byte("to"))
	w.NoError(err)
	got := make([]byte, 2)
	_, err = io.ReadFull(peer, got)
	w.NoError(err)
	w.Equal("to", string(got))
	w.write(peer, []byte("fro"))
	w.Equal("fro", string(w.read(s, 3)))
	w.NoError(peer.Close())
	w.event(s, ring.EventIn|ring.EventRdHup, nil)
	_, err = s.Send([]byte("late"))
	w.ErrorIs(err, unix.ECONNRESET) // as on TCP: the peer is gone altogether
	w.event(s, ring.EventIn|ring.EventErr|ring.EventHup|ring.EventRdHup, unix.ECONNRESET)
	w.closeAndWait(s)

	// Errors come from the call.
	w.NoError(kernel.Close())
	for name, want := range map[string]error{
		name:                            unix.ENOENT,
		"@nobody listens here":          unix.ECONNREFUSED,
		"":                              unix.EINVAL,
		"a\x00b":                        unix.EINVAL,
		"/" + strings.Repeat("x", 107):  unix.EINVAL,
		"@" + strings.Repeat("x", 108):  unix.EINVAL,
		filepath.Dir(name):              unix.ECONNREFUSED,
		filepath.Join(name, "not", "a"): unix.ENOENT,
	} {
		s, err := w.set.NewUnix(ring.Config{})
		w.NoError(err)
		err = s.ConnectUnix(name)
		w.ErrorIs(err, want, "%q", name)
		w.ErrorContains(err, strings.Trim(fmt.Sprintf("%q", name), `"`))
		w.NoError(s.Close())
	}
	// A backlog that is full: an honest error.
	l := w.listenUnix(name)
	w.NoError(l.Suspend())
	w.silent(time.Millisecond)
	var dialled []*ring.Socket
	w.NoError(unix.Listen(l.ID(), 1))
	for err == nil || len(dialled) == 0 {
		s, e := w.set.NewUnix(ring.Config{})
		w.NoError(e)
		if err = s.ConnectUnix(name); err == nil {
			dialled = append(dialled, s)
		} else {
			w.NoError(s.Close())
		}
		w.Less(len(dialled), 10)
	}
	w.ErrorIs(err, unix.EAGAIN)
	w.NoError(l.Resume())
	for _, s := range dialled {
		w.event(s, ring.EventOut, nil)
		w.accept(l)
	}
}

// unixEnds is the case "unix: ends".
func unixEnds(t *testing.T, b Backend) {
	w := newWorld(t, b)
	name := filepath.Join(w.shortDir(), "s")
	l := w.listenUnix(name)

	// The peer is gone before anybody looked: there was a connection all the same.
	early := w.dialUnix(name)
	w.write(early, []byte("gone"))
	w.NoError(early.Close())
	c := w.accept(l)
	s := c.Socket
	if !c.Events.Has(ring.EventPacket) {
		c = w.next("data", func(c *ring.Completion) bool { return c.Socket == s && c.Events.Has(ring.EventPacket) })
	}
	w.Equal("gone", string(c.Packet.Bytes()))
	w.release(c)
	if !c.Events.Has(ring.EventRdHup) {
		w.event(s, ring.EventIn|ring.EventRdHup, nil)
	}
	w.closeAndWait(s)

	// Suspended: the end waits, and costs nothing while it does.
	peer := w.dialUnix(name)
	s = w.accept(l).Socket
	w.NoError(s.Suspend())
	w.write(peer, []byte("kept"))
	w.NoError(peer.Close())
	w.silent(5 * time.Millisecond)
	w.Zero(s.Held(), "what was not taken stays with the kernel")
	if b.Name != "fake" {
		before := time.Now()
		for range 5 {
			w.NoError(s.Ring().Wait(10 * time.Millisecond))
			w.Zero(w.poll())
		}
		w.Greater(time.Since(before), 30*time.Millisecond, "woken for nothing")
	}
	w.NoError(s.Resume())
	w.Equal("kept", string(w.read(s, 4)))
	w.event(s, ring.EventIn|ring.EventRdHup, nil)
	w.closeAndWait(s)

	// Unread data does not cost the peer what was sent to it, nor report a failure to it.
	peer = w.dialUnix(name)
	s = w.accept(l).Socket
	w.NoError(s.Suspend())
	w.write(peer, make([]byte, 50_000))
	_, err := s.Send([]byte("parting words"))
	w.NoError(err)
	w.closeAndWait(s)
	got, err := io.ReadAll(peer)
	w.NoError(err)
	w.Equal("parting words", string(got))

	// A peer that leaves something unread fails the connection.
	peer = w.dialUnix(name)
	s = w.accept(l).Socket
	_, err = s.Send([]byte("unread"))
	w.NoError(err)
	time.Sleep(time.Millisecond)
	w.NoError(peer.Close())
	w.event(s, ring.EventIn|ring.EventErr|ring.EventHup|ring.EventRdHup, unix.ECONNRESET)
	w.closeAndWait(s)

	// Back pressure.
	peer = w.dialUnix(name)
	s = w.accept(l).Socket
	total := 0
	for err = nil; err == nil; {
		var n int
		n, err = s.Send(make([]byte, 30_000))
		total += n
	}
	w.ErrorIs(err, ring.ErrWouldBlock)
	_, err = io.ReadFull(peer, make([]byte, total))
	w.NoError(err)
	w.event(s, ring.EventOut, nil)
	w.NoError(s.Abort())
	w.event(s, ring.EventClosed, nil)
	_, err = peer.Read(make([]byte, 1))
	w.ErrorIs(err, io.EOF)
}

// unixFiles is the case "unix: files".
func unixFiles(t *testing.T, b Backend) {
	w := newWorld(t, b)
	dir := w.shortDir()
	name := filepath.Join(dir, "s")
	l := w.listenUnix(name)
	w.FileExists(name)
	again, err := w.set.NewUnix(ring.Config{})
	w.NoError(err)
	err = again.BindUnix(name)
	w.ErrorIs(err, unix.EADDRINUSE)
	w.ErrorContains(err, name)
	w.NoError(again.Close())
	w.FileExists(name, "not the one that failed")
	// A connection is not the listener.
	w.dialUnix(name)
	s := w.accept(l).Socket
	w.Equal(name, s.LocalUnix())
	w.closeAndWait(s)
	w.FileExists(name)
	// What another process has put in its place is not removed.
	w.NoError(os.Remove(name))
	other := w.listenUnix(name)
	w.closeAndWait(l)
	w.FileExists(name)
	w.NoError(other.SetUnlinkOnClose(false))
	w.closeAndWait(other)
	w.FileExists(name)
	w.NoError(os.Remove(name))
	// Neither listening nor in a ring: it goes all the same.
	half, err := w.set.NewUnix(ring.Config{})
	w.NoError(err)
	w.NoError(half.BindUnix(name))
	w.NoError(half.Close())
	w.NoFileExists(name)
	// Nor does the end of the ring leave one behind.
	last := w.listenUnix(name)
	w.NoError(last.Ring().Close())
	w.NoFileExists(name)
}

// unixRefuses is the case "unix: what it has not is refused".
func unixRefuses(t *testing.T, b Backend) {
	w := newWorld(t, b)
	name := filepath.Join(w.shortDir(), "s")
	l := w.listenUnix(name)
	w.dialUnix(name)
	s := w.accept(l).Socket
	for what, err := range map[string]error{
		"no delay": s.SetNoDelay(true), "keepalive": s.SetKeepAlive(time.Minute, 0, 0), "linger": s.SetLinger(0),
		"user timeout": s.SetUserTimeout(time.Minute), "quick ack": s.SetQuickAck(true), "ttl": s.SetTTL(3), "tos": s.SetTOS(8),
		"receive buffer": s.SetReceiveBuffer(1 << 16), "reuse address": s.SetReuseAddr(true), "reuse port": s.SetReusePort(true),
		"broadcast": s.SetBroadcast(true), "ipv6 only": s.SetV6Only(true),
	} {
		w.ErrorIs(err, ring.ErrNotSupported, what)
		w.ErrorContains(err, what)
		w.ErrorContains(err, "unix socket")
	}
	w.NoError(s.SetSendBuffer(1 << 16))
	fresh, err := w.set.NewUnix(ring.Config{})
	w.NoError(err)
	w.ErrorIs(fresh.Bind(loopback), ring.ErrNotSupported)
	w.ErrorIs(fresh.Connect(loopback), ring.ErrNotSupported)
	w.ErrorIs(fresh.BindToDevice("lo"), ring.ErrNotSupported)
	w.ErrorIs(fresh.Listen(1), unix.EINVAL)
	w.NoError(fresh.Close())
	tcp := w.socket(ring.KindStream, loopback)
	w.ErrorIs(tcp.BindUnix(name), ring.ErrState)
	w.ErrorIs(tcp.ConnectUnix(name), ring.ErrState)
	w.ErrorIs(tcp.SetUnlinkOnClose(false), ring.ErrState)
	w.False(tcp.Unix())
	w.Empty(tcp.LocalUnix() + tcp.RemoteUnix())
	w.NoError(tcp.Close())
	w.ErrorContains(s.Listen(1), "unix socket")
	_, err = w.set.NewUnix(ring.Config{SendQueue: -1})
	w.ErrorContains(err, "send queue -1")
}

// unixAcceptTo is the case "unix: AcceptTo".
func unixAcceptTo(t *testing.T, b Backend) {
	w := newWorld(t, b)
	name := fmt.Sprintf("@ringtest away %s %d", b.Name, os.Getpid())
	taken := -1
	l := w.listenUnix(name, ring.Config{AcceptTo: func(fd int, peer netip.AddrPort) bool {
		w.False(peer.IsValid())
		taken = fd
		return true
	}})
	peer := w.dialUnix(name)
	w.write(peer, []byte("elsewhere"))
	for end := time.Now().Add(patience); taken < 0; w.poll() {
		w.True(time.Now().Before(end))
	}
	s := w.adopt(taken, ring.Config{}, nil)
	w.Equal("elsewhere", string(w.read(s, 9)))
	w.Equal(uint64(1), l.Ring().Stats().AcceptedAway)
}
