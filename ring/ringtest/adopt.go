package ringtest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// madeElsewhere closes a socket of package net and returns a duplicate of its descriptor, as a program gives one to Adopt: blocking and without
// FD_CLOEXEC. Adopt must set O_NONBLOCK and FD_CLOEXEC.
func (w *world) madeElsewhere(c interface {
	syscall.Conn
	io.Closer
}) (fd int) {
	w.t.Helper()
	raw, err := c.SyscallConn()
	w.NoError(err)
	w.NoError(raw.Control(func(own uintptr) { fd, err = unix.FcntlInt(own, unix.F_DUPFD, 0) }))
	w.NoError(err)
	w.NoError(c.Close())
	w.NoError(unix.SetNonblock(fd, false))
	return fd
}

// adopt makes the ring adopt a descriptor, and fails the test if that fails. prepare sets options before, and may be nil.
func (w *world) adopt(fd int, c ring.Config, prepare func(*ring.Socket) error) *ring.Socket {
	w.t.Helper()
	inspect := kernel.Inspect
	if w.backend.Inspect != nil {
		inspect = w.backend.Inspect
	}
	f, err := inspect(fd)
	w.NoError(err)
	s, err := w.set.Adopt(f, c, prepare)
	w.NoError(err)
	if !w.kernel {
		return s
	}
	status, flags := w.flags(fd)
	w.NotZero(status & unix.O_NONBLOCK)
	w.NotZero(flags & unix.FD_CLOEXEC)
	return s
}

// flags returns the status flags (O_NONBLOCK …) and the descriptor flags (FD_CLOEXEC) of a descriptor.
func (w *world) flags(fd int) (status, descriptor int) {
	w.t.Helper()
	status, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	w.NoError(err)
	descriptor, err = unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	w.NoError(err)
	return status, descriptor
}

// kernelPair makes a connection between kernel sockets that no ring has.
func (w *world) kernelPair() (one *net.TCPConn, other StreamPeer) {
	w.t.Helper()
	l, err := kernelPeers{}.ListenStream()
	w.NoError(err)
	defer l.Close()
	one, err = net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(l.Addr()))
	w.NoError(err)
	other, err = l.Accept(nil)
	w.NoError(err)
	return one, w.guardPeer(other)
}

// adoptStream is the case "adopt a connection".
func adoptStream(t *testing.T, b Backend) {
	w := newWorld(t, b)
	one, peer := w.kernelPair()
	w.write(peer, []byte("was there before"))
	s := w.adopt(w.madeElsewhere(one), ring.Config{}, func(s *ring.Socket) error { s.SetUserData(77); return s.SetNoDelay(true) })
	w.Equal(peer.RemoteAddr().String(), s.LocalAddr().String())
	w.Equal(peer.LocalAddr().String(), s.RemoteAddr().String())
	w.Equal(ring.KindStream, s.Kind())
	c := w.event(s, ring.EventPacket, nil) // nothing announces the socket
	w.Equal(uint64(77), c.UserData)
	w.Equal(s.RemoteAddr(), c.Source)
	w.Equal("was there before", string(c.Packet.Bytes()))
	w.release(c)
	on, err := unix.GetsockoptInt(s.ID(), unix.IPPROTO_TCP, unix.TCP_NODELAY)
	w.NoError(err)
	w.NotZero(on)
	w.write(peer, []byte("and after"))
	w.Equal("and after", string(w.read(s, 9)))
	_, err = s.Send([]byte("answer"))
	w.NoError(err)
	p := w.packet([]byte(" packet"))
	w.NoError(s.SendPacket(p, netip.AddrPort{}, 5))
	w.event(s, ring.EventSent, nil)
	w.NoError(s.CloseWrite())
	got, err := io.ReadAll(peer)
	w.NoError(err)
	w.Equal("answer packet", string(got))
	w.NoError(peer.CloseWrite())
	w.event(s, ring.EventIn|ring.EventRdHup, nil)
	fd := s.ID()
	w.closeAndWait(s)
	_, err = unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	w.ErrorIs(err, unix.EBADF)
}

// adoptMultipath: an MPTCP connection works as TCP's; it has no zero-copy sends, which must not cost the ring's others theirs.
func adoptMultipath(t *testing.T, b Backend) {
	w := newWorld(t, b)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_MPTCP)
	if err != nil {
		testnet.Missing(t, "mptcp", err)
	}
	to := &unix.SockaddrInet4{Addr: loopback.Addr().As4()}
	w.NoError(unix.Bind(fd, to))
	w.NoError(unix.Listen(fd, 4))
	l := w.adopt(fd, ring.Config{}, nil)
	to.Port = int(l.LocalAddr().Port())
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_MPTCP)
	w.NoError(err)
	w.NoError(unix.Connect(fd, to))
	s := w.adopt(fd, ring.Config{}, nil)
	c := w.accept(l)
	w.Equal(s.LocalAddr(), c.Source)
	child := c.Socket
	big := make([]byte, 30_000)
	for i := range big {
		big[i] = byte(i / 11)
	}
	for _, way := range [][2]*ring.Socket{{s, child}, {child, s}} {
		w.NoError(way[0].SendPacket(w.packet(big), netip.AddrPort{}, 3))
		w.Equal(big, w.read(way[1], len(big)))
		w.event(way[0], ring.EventSent, nil)
	}
	w.Equal(b.Caps, l.Ring().Caps())
	w.NoError(s.CloseWrite())
	w.event(child, ring.EventIn|ring.EventRdHup, nil)
	w.closeAndWait(child)
	w.event(s, ring.EventIn|ring.EventRdHup, nil)
	w.closeAndWait(s)
}

// adoptEnded: events from before the adoption are delivered after it.
func adoptEnded(t *testing.T, b Backend) {
	w := newWorld(t, b)
	one, peer := w.kernelPair()
	w.write(peer, []byte("bye"))
	w.NoError(peer.Close())
	time.Sleep(time.Millisecond)
	s := w.adopt(w.madeElsewhere(one), ring.Config{}, nil)
	w.Equal("bye", string(w.read(s, 3)))
	w.event(s, ring.EventIn|ring.EventRdHup, nil)
	w.closeAndWait(s)

	one, peer = w.kernelPair()
	w.write(peer, []byte("last words"))
	time.Sleep(time.Millisecond)
	w.reset(peer)
	time.Sleep(time.Millisecond)
	s = w.adopt(w.madeElsewhere(one), ring.Config{}, nil)
	w.Equal("last words", string(w.read(s, 10)))
	w.event(s, ring.EventIn|ring.EventErr|ring.EventHup|ring.EventRdHup, unix.ECONNRESET)
	w.closeAndWait(s)

	// The write side was shut down before: that is remembered, and reading goes on.
	one, peer = w.kernelPair()
	w.NoError(one.CloseWrite())
	s = w.adopt(w.madeElsewhere(one), ring.Config{}, nil)
	_, err := s.Send([]byte("x"))
	w.ErrorIs(err, unix.EPIPE)
	w.write(peer, []byte("still here"))
	w.Equal("still here", string(w.read(s, 10)))
	w.closeAndWait(s)
}

// adoptLinger is the case "adopt takes SO_LINGER over".
func adoptLinger(t *testing.T, b Backend) {
	w := newWorld(t, b)
	one, peer := w.kernelPair()
	w.NoError(one.SetLinger(0))
	s := w.adopt(w.madeElsewhere(one), ring.Config{}, nil)
	w.closeAndWait(s)
	_, err := peer.Read(make([]byte, 1))
	w.ErrorIs(err, unix.ECONNRESET)

	// A time would make close(2) wait, in the owner; here the ring waits.
	one, peer = w.kernelPair()
	w.NoError(one.SetLinger(5))
	s = w.adopt(w.madeElsewhere(one), ring.Config{}, nil)
	l, err := unix.GetsockoptLinger(s.ID(), unix.SOL_SOCKET, unix.SO_LINGER)
	w.NoError(err)
	w.Zero(l.Onoff)
	w.NoError(s.Close())
	w.silent(10 * time.Millisecond)
	_, err = io.ReadAll(peer)
	w.NoError(err)
	w.NoError(peer.Close())
	w.event(s, ring.EventClosed, nil)
}

// adoptListener is the case "adopt a listener".
func adoptListener(t *testing.T, b Backend) {
	w := newWorld(t, b)
	kernel, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	w.NoError(err)
	a := kernel.Addr().(*net.TCPAddr)
	waiting, err := net.DialTCP("tcp", nil, a)
	w.NoError(err)
	defer waiting.Close()
	w.write(waiting, []byte("early"))
	l := w.adopt(w.madeElsewhere(kernel), ring.Config{}, func(s *ring.Socket) error { return s.SetReceiveMode(ring.Queue, nil) })
	w.Equal(ring.KindListener, l.Kind())
	w.Equal(a.AddrPort(), l.LocalAddr())
	first := w.accept(l)
	w.Equal(waiting.LocalAddr().String(), first.Source.String())
	into := make([]ring.Completion, 1)
	for n := 0; n == 0; {
		w.poll()
		n, _ = first.Socket.Receive(into)
	}
	w.Equal("early", string(into[0].Packet.Bytes()), "the mode is inherited")
	w.release(into[0])
	w.dial(l)
	w.accept(l)
	w.NoError(l.Close())
	w.next("CLOSED", func(c *ring.Completion) bool { return c.Socket == l && c.Events == ring.EventClosed })
	_, err = net.DialTimeout("tcp", a.String(), time.Second)
	w.ErrorIs(err, unix.ECONNREFUSED)
}

// adoptDatagram is the case "adopt a datagram socket".
func adoptDatagram(t *testing.T, b Backend) {
	w := newWorld(t, b)
	kernel, err := net.ListenUDP("udp4", nil) // a wildcard: only packet info knows the destination
	w.NoError(err)
	to := netip.AddrPortFrom(loopback.Addr(), uint16(kernel.LocalAddr().(*net.UDPAddr).Port))
	peer := w.udpPeer(to)
	u := w.adopt(w.madeElsewhere(kernel), ring.Config{LargestDatagram: 2048}, nil)
	w.Equal(ring.KindDatagram, u.Kind())
	w.write(peer, []byte("one"))
	c := w.event(u, ring.EventPacket, nil)
	w.Equal(to, c.Destination)
	w.Equal(peer.LocalAddr().String(), c.Source.String())
	w.release(c)
	_, err = u.SendTo([]byte("two"), c.Source)
	w.NoError(err)
	n, err := peer.Read(make([]byte, 9))
	w.NoError(err)
	w.Equal(3, n)
	w.closeAndWait(u)

	// Connected, with a datagram waiting and then an error.
	nobody := freePort(t)
	kernel, err = net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(nobody))
	w.NoError(err)
	w.write(kernel, []byte("is anybody there?"))
	time.Sleep(time.Millisecond)
	u = w.adopt(w.madeElsewhere(kernel), ring.Config{}, nil)
	w.Equal(nobody, u.RemoteAddr())
	w.event(u, ring.EventErr, unix.ECONNREFUSED)
	w.closeAndWait(u)

	// Neither bound nor connected: as NewSocket makes them.
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	w.NoError(err)
	u = w.adopt(fd, ring.Config{}, nil)
	w.Nil(u.Ring())
	w.False(u.LocalAddr().IsValid())
	w.NoError(u.Bind(loopback))
	w.write(w.udpPeer(u.LocalAddr()), []byte("three"))
	w.release(w.event(u, ring.EventPacket, nil))
	w.closeAndWait(u)
	fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM, 0)
	w.NoError(err)
	u = w.adopt(fd, ring.Config{}, nil)
	w.NoError(u.Close())
	_, err = unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	w.ErrorIs(err, unix.EBADF)
}

// adoptUnix is the case "adopt unix sockets".
func adoptUnix(t *testing.T, b Backend) {
	w := newWorld(t, b)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	w.NoError(err)
	_, err = unix.Write(pair[1], []byte("from the parent"))
	w.NoError(err)
	s := w.adopt(pair[0], ring.Config{}, nil)
	w.True(s.Unix())
	w.Equal("from the parent", string(w.read(s, 15)))
	_, err = s.Send([]byte("to it"))
	w.NoError(err)
	got := make([]byte, 9)
	n, err := unix.Read(pair[1], got)
	w.NoError(err)
	w.Equal("to it", string(got[:n]))
	w.NoError(unix.Close(pair[1]))
	w.event(s, ring.EventIn|ring.EventRdHup, nil)
	w.closeAndWait(s)

	path := filepath.Join(w.shortDir(), "s")
	kernel, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	w.NoError(err)
	kernel.SetUnlinkOnClose(false)
	l := w.adopt(w.madeElsewhere(kernel), ring.Config{}, nil)
	w.Equal(path, l.LocalUnix())
	peer := w.dialUnix(path)
	child := w.accept(l).Socket
	w.write(peer, []byte("hello"))
	w.Equal("hello", string(w.read(child, 5)))
	w.closeAndWait(l)
	w.FileExists(path, "it was not made here")
}

// adoptErrors is the case "adopt refuses, and leaves all as it was".
func adoptErrors(t *testing.T, b Backend) {
	w := newWorld(t, b)
	w.udp(loopback)
	w.poll()
	make := func(family, typ, protocol int) int {
		fd, err := unix.Socket(family, typ, protocol)
		w.NoError(err)
		return fd
	}
	file, err := os.Open(os.DevNull)
	w.NoError(err)
	defer file.Close()
	gro := make(unix.AF_INET, unix.SOCK_DGRAM, 0)
	w.NoError(unix.SetsockoptInt(gro, unix.IPPROTO_UDP, unix.UDP_GRO, 1))
	connecting := make(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	away := blackHole(t)
	w.ErrorIs(unix.Connect(connecting, &unix.SockaddrInet4{Port: int(away.Port()), Addr: away.Addr().As4()}), unix.EINPROGRESS)
	const far = 1 << 30 // beyond any limit
	for name, c := range map[string]struct {
		fd   int
		want error
		says string
	}{
		"negative":        {-1, unix.EBADF, "-1"},
		"not open":        {far, unix.EBADF, ""},
		"a file":          {int(file.Fd()), unix.ENOTSOCK, ""},
		"not connected":   {make(unix.AF_INET, unix.SOCK_STREAM, 0), unix.ENOTCONN, "TCP stream"},
		"connecting":      {connecting, unix.ENOTCONN, "TCP stream"},
		"unix, not so":    {make(unix.AF_UNIX, unix.SOCK_STREAM, 0), unix.ENOTCONN, "unix stream"},
		"unix datagram":   {make(unix.AF_UNIX, unix.SOCK_DGRAM, 0), ring.ErrNotSupported, "datagram"},
		"unix seqpacket":  {make(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0), ring.ErrNotSupported, "seqpacket"},
		"another family":  {make(unix.AF_NETLINK, unix.SOCK_RAW, 0), ring.ErrNotSupported, "address family 16"},
		"joined by UDP":   {gro, ring.ErrNotSupported, "UDP_GRO"},
		"other protocols": {make(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE), ring.ErrNotSupported, "protocol 136"},
	} {
		before := openDescriptors(t)
		status, flags := 0, 0
		if c.want != unix.EBADF {
			status, flags = w.flags(c.fd)
		}
		_, err := kernel.Inspect(c.fd)
		w.ErrorIs(err, c.want, name)
		w.ErrorContains(err, "adopt: descriptor", name)
		w.ErrorContains(err, c.says, name)
		w.Equal(before, openDescriptors(t), name)
		if c.want != unix.EBADF {
			nowStatus, nowFlags := w.flags(c.fd)
			w.Equal([]int{status, flags}, []int{nowStatus, nowFlags}, name)
			if c.fd != int(file.Fd()) {
				w.NoError(unix.Close(c.fd))
			}
		}
	}

	// What is refused later leaves the descriptor as it was, too.
	one, peer := w.kernelPair()
	fd := w.madeElsewhere(one)
	w.NoError(unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 3}))
	status, flags := w.flags(fd)
	f, err := kernel.Inspect(fd)
	w.NoError(err)
	sockets := w.set.Rings()[0].Sockets()
	broken := errors.New("prepare's own")
	_, err = w.set.Adopt(f, ring.Config{}, func(*ring.Socket) error { return broken })
	w.ErrorIs(err, broken)
	_, err = w.set.Adopt(f, ring.Config{Budget: -1}, nil)
	w.ErrorContains(err, "budget -1")
	_, err = w.set.Adopt(ring.Adopted{Conn: ring.Conn(fd)}, ring.Config{}, nil)
	w.ErrorContains(err, "not inspected")
	nowStatus, nowFlags := w.flags(fd)
	w.Equal([]int{status, flags}, []int{nowStatus, nowFlags})
	l, err := unix.GetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER)
	w.NoError(err)
	w.Equal(unix.Linger{Onoff: 1, Linger: 3}, *l)
	w.Equal(sockets, w.set.Rings()[0].Sockets())
	w.write(peer, []byte("unharmed"))
	got := [9]byte{}
	n, err := unix.Read(fd, got[:])
	w.NoError(err)
	w.Equal("unharmed", string(got[:n]))
	w.NoError(unix.Close(fd))
}

// adoptTwice is the case "adopt refuses the descriptor of a socket": one that was adopted, one that the ring has made, and one that it has
// accepted. The socket goes on, and when it is closed another one may have the number.
func adoptTwice(t *testing.T, b Backend) {
	w := newWorld(t, b)
	refused := func(s *ring.Socket) {
		t.Helper()
		f, err := kernel.Inspect(s.ID())
		w.NoError(err)
		_, err = w.set.Adopt(f, ring.Config{}, nil)
		w.ErrorIs(err, unix.EEXIST)
		w.EqualError(err, fmt.Sprintf("ring: adopt: descriptor %d: a socket of this process has it already: file exists", s.ID()))
	}
	one, peer := w.kernelPair()
	fd := w.madeElsewhere(one)
	for range 3 { // the number is free again when its socket is closed
		s := w.adopt(fd, ring.Config{}, nil)
		refused(s)
		w.write(peer, []byte("unharmed"))
		w.Equal("unharmed", string(w.read(s, 8)))
		w.closeAndWait(s)
		one, peer = w.kernelPair()
		other := w.madeElsewhere(one)
		if other != fd {
			w.NoError(unix.Dup3(other, fd, unix.O_CLOEXEC))
			w.NoError(unix.Close(other))
		}
	}
	w.NoError(unix.Close(fd))

	u, l := w.udp(loopback), w.listen()
	refused(u)
	refused(l)
	w.dial(l)
	refused(w.accept(l).Socket)
	unbound, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	w.NoError(err)
	u = w.adopt(unbound, ring.Config{}, nil) // it has no ring
	refused(u)
	w.NoError(u.Close())
}
