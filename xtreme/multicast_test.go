package xtreme_test

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// group is one of the groups set aside for documentation and tests (RFC 6676).
func group(n byte) netip.Addr { return netip.AddrFrom4([4]byte{233, 252, 0, n}) }

var group6 = netip.MustParseAddr("ff15::db8:1") // transient, site-local (RFC 4291 section 2.7)

// freePort is a UDP port that nobody was bound to a moment ago.
func (w *world) freePort() uint16 {
	w.t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{})
	w.NoError(err)
	defer func() { w.NoError(c.Close()) }()
	return addr(c.LocalAddr()).Port()
}

// sender is a socket whose multicast leaves by the loopback interface.
func (w *world) sender(local netip.AddrPort) *xtreme.Socket {
	w.t.Helper()
	return w.udp(local, xtreme.UDPConfig{MulticastInterface: "lo", MulticastLoop: xtreme.On, MulticastTTL: -1})
}

func (w *world) sendTo(s *xtreme.Socket, text string, to netip.AddrPort) {
	w.t.Helper()
	n, err := s.SendTo([]byte(text), to)
	w.NoError(err)
	w.Equal(len(text), n)
}

func TestMulticast(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		g := netip.AddrPortFrom(group(1), w.freePort())
		one := w.udp(g, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReuseAddr: true}, Groups: []xtreme.Group{{Interface: "lo"}}})
		two := w.udp(g, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReuseAddr: true}, Groups: []xtreme.Group{{Interface: "lo"}}})
		from := w.sender(loopback)
		w.sendTo(from, "to all", g)
		lo, err := net.InterfaceByName("lo")
		w.NoError(err)
		for _, s := range []*xtreme.Socket{one, two} {
			c := w.event(s, xtreme.EventPacket)
			w.Equal("to all", string(c.Packet.Bytes()))
			w.Equal(from.LocalAddr(), c.Source)
			w.Equal(g, c.Destination)
			w.Equal(uint32(lo.Index), c.IfIndex)
			w.NoError(c.Packet.Release())
		}
	})
}

func TestMulticastFromOneSource(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		g := netip.AddrPortFrom(group(2), w.freePort())
		mine := w.udp(g, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReuseAddr: true}, Groups: []xtreme.Group{{Interface: "lo",
			Source: loopback.Addr()}}})
		w.udp(g, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReuseAddr: true}, Groups: []xtreme.Group{{Interface: "lo",
			Source: netip.MustParseAddr("127.0.0.9")}}})
		w.sendTo(w.sender(loopback), "x", g)
		w.Equal("x", w.text(mine))
		w.silent(10 * time.Millisecond) // the other source's member receives nothing
		w.sendTo(w.sender(netip.MustParseAddrPort("127.0.0.9:0")), "y", g)
		c := w.next("y", func(c *xtreme.Completion) bool { return c.Events.Has(xtreme.EventPacket) })
		w.NotEqual(mine, c.Socket)
		w.Equal("y", string(c.Packet.Bytes()))
		w.NoError(c.Packet.Release())
		w.silent(10 * time.Millisecond)
	})
}

// A wildcard socket joins several groups; one bound to nothing has no ring to receive them with.
func TestMulticastJoinGroup(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		s := w.udp(netip.MustParseAddrPort("0.0.0.0:0"), xtreme.UDPConfig{Groups: []xtreme.Group{{Address: group(3), Interface: "lo"},
			{Address: group(4), Interface: "lo", Source: loopback.Addr()}}})
		port := s.LocalAddr().Port()
		from := w.sender(loopback)
		for n := byte(3); n <= 4; n++ {
			to := netip.AddrPortFrom(group(n), port)
			w.sendTo(from, "x", to)
			c := w.event(s, xtreme.EventPacket)
			w.Equal(to, c.Destination)
			w.NoError(c.Packet.Release())
		}
	})
}

func TestMulticastOverIPv6(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		local := ownNetwork(t)
		w := newWorld(t, kind)
		g := netip.AddrPortFrom(group6, w.freePort())
		s := w.udp(g, xtreme.UDPConfig{Groups: []xtreme.Group{{Interface: "v0"}}})
		w.Zero(w.sockopt(s, unix.IPPROTO_IPV6, 29)) // IPV6_MULTICAST_ALL, linux/in6.h
		from := w.udp(local, xtreme.UDPConfig{MulticastInterface: "v0"})
		w.sendTo(from, "six", g)
		c := w.event(s, xtreme.EventPacket)
		w.Equal("six", string(c.Packet.Bytes()))
		w.Equal(g, c.Destination)
		w.Equal(from.LocalAddr(), c.Source)
		v0, err := net.InterfaceByName("v0")
		w.NoError(err)
		w.Equal(uint32(v0.Index), c.IfIndex)
		w.NoError(c.Packet.Release())
	})
}

// ownNetwork puts the test's thread into a network namespace of its own, with a pair of interfaces v0 and v1, because IPv6 multicast
// does not come back over the loopback interface. It returns the address of v0. The thread ends with the test.
func ownNetwork(t *testing.T) netip.AddrPort {
	t.Helper()
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); errors.Is(err, unix.EPERM) {
		testnet.Missing(t, "namespaces", "CAP_SYS_ADMIN")
	} else {
		require.NoError(t, err)
	}
	pair := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "v1"}
	pair.Name = "v0"
	if err := netlink.LinkAdd(pair); errors.Is(err, unix.EOPNOTSUPP) {
		testnet.Missing(t, "namespaces", "veth interfaces in this kernel")
	} else {
		require.NoError(t, err)
	}
	for _, name := range []string{"lo", "v0", "v1"} {
		link, err := netlink.LinkByName(name)
		require.NoError(t, err)
		require.NoError(t, netlink.LinkSetUp(link))
		if name == "v0" {
			a, err := netlink.ParseAddr("fd00::1/64")
			require.NoError(t, err)
			a.Flags = unix.IFA_F_NODAD
			require.NoError(t, netlink.AddrAdd(link, a))
		}
	}
	return netip.MustParseAddrPort("[fd00::1]:0")
}

// A socket bound to a group does not get what only others joined, unless it asks for it; one bound to the wildcard does, as in
// Linux, unless it asks not to.
func TestMulticastAll(t *testing.T) {
	w := newWorld(t, conf.RingEpoll)
	all := func(s *xtreme.Socket) int { return w.sockopt(s, unix.IPPROTO_IP, unix.IP_MULTICAST_ALL) }
	g := netip.AddrPortFrom(group(5), w.freePort())
	w.Equal(0, all(w.udp(g, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReuseAddr: true}, Groups: []xtreme.Group{{Interface: "lo"}}})))
	w.Equal(1, all(w.udp(g, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReuseAddr: true}, Groups: []xtreme.Group{{Interface: "lo"}},
		MulticastAll: xtreme.On})))
	w.Equal(1, all(w.udp(loopback)))
	bare, err := w.poller.NewUDP(xtreme.IPv4, xtreme.UDPSocketConfig{})
	w.NoError(err)
	w.NoError(bare.SetMulticastAll(false))
	w.Equal(0, all(bare))
	w.close(bare)

	wild := netip.AddrPortFrom(netip.IPv4Unspecified(), w.freePort())
	open := w.udp(wild, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReuseAddr: true}})
	w.udp(wild, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReuseAddr: true}, MulticastAll: xtreme.Off})
	w.udp(netip.AddrPortFrom(group(6), wild.Port()+1), xtreme.UDPConfig{Groups: []xtreme.Group{{Interface: "lo"}}}) // the one that joined
	w.sendTo(w.sender(loopback), "x", netip.AddrPortFrom(group(6), wild.Port()))
	w.Equal("x", w.text(open))
	w.silent(10 * time.Millisecond)
}

// With the sender's loop switched off no member on this host receives what it sends, while the peer on the wire does; switched on, both do. The
// loopback interface brings back everything (TestMulticastOnTheLoopbackInterfaceComesBack), so it is judged on another one.
func TestMulticastLoop(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		cabled := newCabled(t)
		w := cabled.world
		w.engine = cabled.newEngine(func(s *conf.Settings) { s.Ring = kind })
		w.poller = cabled.newPoller("sender")
		g := netip.AddrPortFrom(group(7), 9400)
		peer := listenForTTL(cabled, 0, g)
		member := w.udp(g, xtreme.UDPConfig{Groups: []xtreme.Group{{Interface: cabled.net.Device(0)}}})
		mute := w.udp(cabled.at(0), xtreme.UDPConfig{MulticastInterface: cabled.net.Device(0), MulticastLoop: xtreme.Off, MulticastTTL: 3})
		for _, s := range []*xtreme.Socket{member, mute} {
			w.Equal(kind == conf.RingOffload, s.Path().Tier == "bypass", s.Path())
		}
		w.Equal(0, w.sockopt(mute, unix.IPPROTO_IP, unix.IP_MULTICAST_LOOP))
		w.Equal(3, w.sockopt(mute, unix.IPPROTO_IP, unix.IP_MULTICAST_TTL))
		send := func(text string) {
			w.sendTo(mute, text, g)
			w.NoError(w.poller.Flush())
			w.Equal(3, ttlOf(w, peer), "it has left")
		}
		for range 3 {
			send("not looped")
		}
		w.silent(10 * time.Millisecond)
		w.NoError(mute.SetMulticastLoop(true))
		send("looped")
		w.Equal("looped", w.text(member))
	})
}
