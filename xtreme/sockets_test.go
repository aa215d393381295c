package xtreme_test

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// families runs a test over IPv4 and IPv6.
func families(t *testing.T, test func(t *testing.T, kind conf.RingKind, local netip.AddrPort)) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		t.Run("IPv4", func(t *testing.T) { test(t, kind, loopback) })
		t.Run("IPv6", func(t *testing.T) { test(t, kind, loopback6) })
	})
}

func TestListenTCP(t *testing.T) {
	families(t, func(t *testing.T, kind conf.RingKind, local netip.AddrPort) {
		w := newWorld(t, kind)
		l, err := w.poller.ListenTCP(local, xtreme.ListenConfig{})
		w.NoError(err)
		w.Equal(xtreme.KindListener, l.Kind())
		w.Equal(local.Addr(), l.LocalAddr().Addr())
		w.NotZero(l.LocalAddr().Port())
		peer := w.dial(l.LocalAddr())
		c := w.next("a connection", func(c *xtreme.Completion) bool { return c.Events.Has(xtreme.EventNewConnection) })
		s := c.Socket
		w.Equal(l, c.Listener)
		w.Equal(xtreme.KindStream, s.Kind())
		w.Equal(addr(peer.LocalAddr()), s.RemoteAddr())
		w.Equal(s.RemoteAddr(), c.Source)
		w.write(peer, "ping")
		w.Equal("ping", w.text(s))
		_, err = s.Send([]byte("pong"))
		w.NoError(err)
		w.NoError(s.CloseWrite())
		got, err := io.ReadAll(peer)
		w.NoError(err)
		w.Equal("pong", string(got))
		w.close(l)
		w.close(s)
	})
}

func TestDialTCP(t *testing.T) {
	families(t, func(t *testing.T, kind conf.RingKind, local netip.AddrPort) {
		w := newWorld(t, kind)
		l := w.server("tcp", local.String())
		s, err := w.poller.DialTCP(addr(l.Addr()), xtreme.DialConfig{Local: local})
		w.NoError(err)
		w.Equal(addr(l.Addr()), s.RemoteAddr())
		w.event(s, xtreme.EventOut)
		peer, err := l.Accept()
		w.NoError(err)
		defer peer.Close()
		w.Equal(s.LocalAddr(), addr(peer.RemoteAddr()))
		w.write(peer, "hello")
		w.Equal("hello", w.text(s))
		w.close(s)
	})
}

func TestDialTCPFromAnAddress(t *testing.T) {
	w := newWorld(t, conf.RingEpoll)
	l := w.server("tcp", "127.0.0.1:0")
	s, err := w.poller.DialTCP(addr(l.Addr()), xtreme.DialConfig{Local: netip.MustParseAddrPort("127.0.0.5:0")})
	w.NoError(err)
	w.event(s, xtreme.EventOut)
	peer, err := l.Accept()
	w.NoError(err)
	defer peer.Close()
	w.Equal("127.0.0.5", addr(peer.RemoteAddr()).Addr().String())
}

// Nobody listens: the dial itself succeeds, the completion tells.
func TestDialTCPRefused(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		l := w.server("tcp", "127.0.0.1:0")
		w.NoError(l.Close())
		s, err := w.poller.DialTCP(addr(l.Addr()), xtreme.DialConfig{})
		w.NoError(err)
		c := w.event(s, xtreme.EventIn|xtreme.EventErr|xtreme.EventHup)
		w.ErrorIs(c.Err, unix.ECONNREFUSED)
		w.close(s)
	})
}

func TestOpenUDP(t *testing.T) {
	families(t, func(t *testing.T, kind conf.RingKind, local netip.AddrPort) {
		w := newWorld(t, kind)
		u := w.udp(local)
		w.Equal(xtreme.KindDatagram, u.Kind())
		peer := w.peer(u.LocalAddr())
		w.write(peer, "ping")
		c := w.event(u, xtreme.EventPacket)
		w.Equal("ping", string(c.Packet.Bytes()))
		w.Equal(addr(peer.LocalAddr()), c.Source)
		w.NoError(c.Packet.Release())
		w.sendTo(u, "pong", c.Source)
		b := make([]byte, 100)
		n, err := peer.Read(b)
		w.NoError(err)
		w.Equal("pong", string(b[:n]))
		w.close(u)
	})
}

// A connected socket receives from its peer alone; it needs no local address for that.
func TestOpenUDPConnected(t *testing.T) {
	families(t, func(t *testing.T, kind conf.RingKind, local netip.AddrPort) {
		w := newWorld(t, kind)
		server, stranger := w.udp(local), w.udp(local)
		for _, from := range []netip.AddrPort{{}, local} {
			s := w.udp(from, xtreme.UDPConfig{Remote: server.LocalAddr()})
			w.Equal(server.LocalAddr(), s.RemoteAddr())
			w.Equal(local.Addr(), s.LocalAddr().Addr())
			w.NotNil(s.Ring())
			_, err := s.Send([]byte("ask"))
			w.NoError(err)
			c := w.event(server, xtreme.EventPacket)
			w.Equal(s.LocalAddr(), c.Source)
			w.NoError(c.Packet.Release())
			w.sendTo(stranger, "noise", s.LocalAddr())
			w.sendTo(server, "answer", c.Source)
			w.Equal("answer", w.text(s))
			w.silent(5 * time.Millisecond)
			w.close(s)
		}
	})
}

// Unbound: no ring, no completions; the first SendTo binds it and gives it both.
func TestOpenUDPUnbound(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		server := w.udp(loopback)
		s := w.udp(netip.AddrPort{})
		w.Nil(s.Ring())
		w.Zero(s.NumRings())
		w.False(s.LocalAddr().IsValid())
		_, err := s.Send([]byte("x"))
		w.ErrorIs(err, unix.EDESTADDRREQ)
		w.sendTo(s, "ask", server.LocalAddr())
		w.NotNil(s.Ring())
		w.Equal(1, s.NumRings())
		c := w.event(server, xtreme.EventPacket)
		w.Equal(s.LocalAddr().Port(), c.Source.Port())
		w.NoError(c.Packet.Release())
		w.sendTo(server, "answer", c.Source)
		w.Equal("answer", w.text(s))
		w.close(s)
	})
}

// The sockets API in its steps, for ported code: options before, then bind, listen or connect.
func TestNewTCPAndNewUDP(t *testing.T) {
	families(t, func(t *testing.T, kind conf.RingKind, local netip.AddrPort) {
		w := newWorld(t, kind)
		family := ring.FamilyOfAddr(local.Addr())
		l, err := w.poller.NewTCP(family, xtreme.TCPConfig{})
		w.NoError(err)
		w.NoError(l.SetReuseAddr(true))
		w.Nil(l.Ring())
		w.NoError(l.Bind(local))
		w.Nil(l.Ring(), "a bound TCP socket has no ring yet")
		w.NoError(l.Listen(4))
		w.NotNil(l.Ring())

		s, err := w.poller.NewTCP(family, xtreme.TCPConfig{SocketConfig: xtreme.SocketConfig{UserData: xtreme.Ptr[uint64](9)}})
		w.NoError(err)
		w.NoError(s.SetNoDelay(true))
		w.NoError(s.Connect(l.LocalAddr()))
		child := w.accept(l)
		c := w.event(s, xtreme.EventOut)
		w.Equal(uint64(9), c.UserData)
		_, err = s.Send([]byte("by hand"))
		w.NoError(err)
		w.Equal("by hand", w.text(child))

		u, err := w.poller.NewUDP(family, xtreme.UDPSocketConfig{LargestDatagram: 100})
		w.NoError(err)
		w.Nil(u.Ring())
		w.NoError(u.Bind(local))
		w.NotNil(u.Ring())
		w.write(w.peer(u.LocalAddr()), "udp")
		w.Equal("udp", w.text(u))

		never, err := w.poller.NewTCP(family, xtreme.TCPConfig{})
		w.NoError(err)
		before := descriptors(t)
		w.NoError(never.Close())
		w.Equal(before-1, descriptors(t))
		w.ErrorIs(never.Close(), xtreme.ErrClosed)
	})
}

func TestRequireOffloadIsRefusedWithTheReason(t *testing.T) {
	w := newWorld(t, conf.RingAuto)
	for _, open := range []func() (*xtreme.Socket, error){
		func() (*xtreme.Socket, error) {
			return w.poller.ListenTCP(loopback, xtreme.ListenConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
		},
		func() (*xtreme.Socket, error) {
			return w.poller.DialTCP(loopback, xtreme.DialConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
		},
		func() (*xtreme.Socket, error) {
			return w.poller.OpenUDP(loopback, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
		},
		func() (*xtreme.Socket, error) {
			return w.poller.NewTCP(xtreme.IPv4, xtreme.TCPConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
		},
		func() (*xtreme.Socket, error) {
			return w.poller.NewUDP(xtreme.IPv4, xtreme.UDPSocketConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
		},
	} {
		before := descriptors(t)
		s, err := open()
		w.Nil(s)
		w.ErrorIs(err, xtreme.ErrNotSupported)
		var f *ring.FeatureError
		w.ErrorAs(err, &f)
		w.Equal("offload.not_asked", f.Code)
		w.ErrorContains(err, "offload required")
		w.Equal(before, descriptors(t))
	}
}

// An open that fails, at whatever step, leaves no descriptor and no socket behind.
func TestFailedOpensLeaveNothing(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		l := w.listen()
		u := w.udp(loopback)
		nobody := netip.MustParseAddrPort("192.0.2.77:0") // TEST-NET-1: not an address of ours
		six := netip.MustParseAddrPort("[::1]:7")
		w.poll()
		before, sockets := descriptors(t), u.Ring().Sockets()
		for name, c := range map[string]struct {
			open func() (*xtreme.Socket, error)
			want error
		}{
			"listener's address is taken": {func() (*xtreme.Socket, error) { return w.poller.ListenTCP(l.LocalAddr(), xtreme.ListenConfig{}) },
				unix.EADDRINUSE},
			"listener's address is not ours": {func() (*xtreme.Socket, error) {
				return w.poller.ListenTCP(nobody, xtreme.ListenConfig{})
			}, unix.EADDRNOTAVAIL},
			"no address to listen on": {func() (*xtreme.Socket, error) { return w.poller.ListenTCP(netip.AddrPort{}, xtreme.ListenConfig{}) },
				unix.EINVAL},
			"no address to dial": {func() (*xtreme.Socket, error) { return w.poller.DialTCP(netip.AddrPort{}, xtreme.DialConfig{}) }, unix.EINVAL},
			"dialled from elsewhere": {func() (*xtreme.Socket, error) {
				return w.poller.DialTCP(l.LocalAddr(), xtreme.DialConfig{Local: nobody})
			}, unix.EADDRNOTAVAIL},
			"dialled from another family": {func() (*xtreme.Socket, error) {
				return w.poller.DialTCP(l.LocalAddr(), xtreme.DialConfig{Local: six})
			}, unix.EAFNOSUPPORT},
			"an option fails": {func() (*xtreme.Socket, error) {
				return w.poller.DialTCP(l.LocalAddr(), xtreme.DialConfig{IPConfig: xtreme.IPConfig{TTL: -1}, NoDelay: xtreme.On})
			}, unix.EINVAL},
			"IPv6 option on IPv4": {func() (*xtreme.Socket, error) {
				return w.poller.OpenUDP(loopback, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{V6Only: true}})
			}, unix.ENOPROTOOPT},
			"UDP address is taken": {func() (*xtreme.Socket, error) { return w.poller.OpenUDP(u.LocalAddr(), xtreme.UDPConfig{}) }, unix.EADDRINUSE},
			"UDP address not ours": {func() (*xtreme.Socket, error) { return w.poller.OpenUDP(nobody, xtreme.UDPConfig{}) }, unix.EADDRNOTAVAIL},
			"join without interface": {func() (*xtreme.Socket, error) {
				return w.poller.OpenUDP(netip.AddrPortFrom(group(8), 0), xtreme.UDPConfig{Groups: []xtreme.Group{{Interface: "nosuchif0"}}})
			}, unix.ENODEV},
		} {
			s, err := c.open()
			w.Nil(s, name)
			w.ErrorIs(err, c.want, name)
			w.Equal(before, descriptors(t), name)
		}
		w.silent(5 * time.Millisecond)
		w.Equal(sockets, u.Ring().Sockets())
	})
}

// A socket that got as far as its ring takes a Poll to go.
func TestOpenUDPWithABadRemote(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		w.poll()
		before := descriptors(t)
		for _, remote := range []string{"[::1]:7", "255.255.255.255:7"} { // another family; broadcast without leave
			_, err := w.poller.OpenUDP(loopback, xtreme.UDPConfig{Remote: netip.MustParseAddrPort(remote)})
			w.ErrorContains(err, remote)
		}
		for range 10 {
			w.poll()
		}
		w.Equal(before, descriptors(t))
		w.Zero(w.poller.Rings()[0].Sockets())
		w.Empty(w.list(), "nobody was given that socket, so nothing is said of it")
	})
}

// Sockets of a closed owner cannot be made.
func TestOpenAfterClose(t *testing.T) {
	e := newEngine(t, conf.RingEpoll)
	w := newWorld(t, conf.RingEpoll)
	p, err := e.NewPoller("closed", xtreme.PollerConfig{})
	w.NoError(err)
	w.NoError(p.Close())
	before := descriptors(t)
	_, err = p.OpenUDP(loopback, xtreme.UDPConfig{})
	w.ErrorIs(err, xtreme.ErrClosed)
	w.ErrorIs(err, net.ErrClosed)
	_, err = p.ListenTCP(loopback, xtreme.ListenConfig{})
	w.ErrorIs(err, xtreme.ErrClosed)
	w.Equal(before, descriptors(t))
}

func TestPacketInfoOfAConnectedSocket(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		server := w.udp(loopback)
		s := w.udp(netip.AddrPort{}, xtreme.UDPConfig{Remote: server.LocalAddr(), PacketInfo: true})
		w.sendTo(server, "x", s.LocalAddr())
		c := w.event(s, xtreme.EventPacket)
		w.NoError(c.Packet.Release())
		w.NotZero(c.IfIndex)
	})
}

func TestAFailedOpenIsNotSpokenOf(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		l := w.listen()
		_, err := w.poller.ListenTCP(l.LocalAddr(),
			xtreme.ListenConfig{IPConfig: xtreme.IPConfig{BindToDevice: "lo"}}) // has a ring before it fails to bind
		w.Error(err)
		for range 10 {
			w.poll()
		}
		w.Empty(w.list())
	})
}
