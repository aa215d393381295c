package xtreme_test

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Datagrams of a kernel over a veth come by our own stack, its unfinished checksums are accepted, and that is said once.
func TestOffloadedUDP(t *testing.T) {
	w := newCabled(t)
	w.False(program(t, "v0"), "nothing is opened before a socket needs it")
	s := w.udp(w.at(0))
	w.True(program(t, "v0"))
	p := s.Path()
	w.Equal("bypass", p.Tier)
	w.Equal("offload", p.Kind)
	w.Contains(p.Explain(), "xdp v0/0 (generic, copy")
	w.Contains(codes(p), "checksum.accept_partial")
	peer := w.net.Dial(s.LocalAddr())
	for range 100 {
		answers(w.world, s, peer)
	}
	w.NotZero(counter(s.Ring(), "stack.partial_sums"))
	w.Zero(counter(s.Ring(), "udp.sum"))

	two := w.udp(w.at(0))
	w.Equal(s.Ring(), two.Ring(), "one ring for all interfaces and sockets")
	w.Equal(1, strings.Count(w.log.String(), "\n"), w.log.String())
	w.Contains(w.log.String(), `msg="offloaded interface" interface=v0 mode=generic checksums=accept-partial`)
	w.Contains(w.log.String(), `because="v0 is one end of a veth pair`)
}

// What our own stack does not carry is on a kernel ring of the same poller, with the reason.
func TestKernelRingBesideOffload(t *testing.T) {
	w := newCabled(t)
	udp := w.udp(w.at(0))
	tcp, err := w.poller.ListenTCP(udp.LocalAddr(), xtreme.ListenConfig{})
	w.NoError(err)
	var peer net.Conn
	w.net.InPeer(func() {
		peer, err = net.DialTCP("tcp4", nil, net.TCPAddrFromAddrPort(tcp.LocalAddr()))
		w.NoError(err)
	})
	defer peer.Close()
	w.NoError(peer.SetDeadline(time.Now().Add(3 * patience)))
	c := w.accept(tcp)
	packets := w.net.Dial(udp.LocalAddr())
	for range 20 {
		w.write(peer, "stream")
		w.Equal("stream", w.text(c))
		_, err = c.Send([]byte("back"))
		w.NoError(err)
		b := make([]byte, 16)
		n, err := peer.Read(b)
		w.NoError(err)
		w.Equal("back", string(b[:n]))
		answers(w.world, udp, packets)
	}
	w.NotEqual(c.Ring(), udp.Ring())
	w.Equal([]*ring.Ring{tcp.Ring(), udp.Ring()}, w.poller.Rings())
	found, ok := w.engine.RingByFD(udp.Ring().FD())
	w.True(ok)
	w.Equal(udp.Ring(), found)
	for _, s := range []*xtreme.Socket{tcp, c} {
		w.Equal("kernel", s.Path().Tier)
		w.Equal("offload.no_tcp", codes(s.Path())[0])
		w.NotContains(codes(s.Path()), "offload.not_asked")
	}

	// A packet received on one ring is sent on the other: they share a pool.
	w.write(peer, "from TCP")
	got := w.event(c, xtreme.EventPacket)
	w.NoError(udp.SendPacket(got.Packet, packets.LocalAddr().(*net.UDPAddr).AddrPort(), 7))
	sent := w.event(udp, xtreme.EventSent)
	w.NoError(sent.Err)
	w.Equal(uint64(7), sent.Token)
	b := make([]byte, 16)
	n, err := packets.Read(b)
	w.NoError(err)
	w.Equal("from TCP", string(b[:n]))
}

// A socket on the wildcard address has all interfaces that can be had, by one ring.
func TestWildcardOverTwoInterfaces(t *testing.T) {
	w := newCabled(t, testnet.Pair{}, testnet.Pair{})
	s := w.udp(netip.MustParseAddrPort("0.0.0.0:0"))
	w.Equal("bypass", s.Path().Tier)
	w.Contains(s.Path().Explain(), "xdp v0/0")
	w.Contains(s.Path().Explain(), "xdp v1/0")
	w.Contains(codes(s.Path()), "link.loopback", "not on lo, it says")
	for i := range 2 {
		answers(w.world, s, w.net.Dial(netip.AddrPortFrom(w.net.Local(i), s.LocalAddr().Port())))
		w.write(w.net.Dial(netip.AddrPortFrom(w.net.Other(i), s.LocalAddr().Port())), "to the other address")
		c := w.event(s, xtreme.EventPacket)
		w.False(c.ViaKernel)
		w.Equal(w.net.Other(i), c.Destination.Addr())
		w.NoError(c.Packet.Release())
	}
	w.Equal(2, strings.Count(w.log.String(), "\n"), w.log.String())

	// Addresses that come later are its too, as soon as the mirror knows.
	l, err := netlink.LinkByName("v1")
	w.NoError(err)
	a, err := netlink.ParseAddr("10.0.1.99/24")
	w.NoError(err)
	w.NoError(netlink.AddrAdd(l, a))
	peer := w.net.Dial(netip.MustParseAddrPort(fmt.Sprintf("10.0.1.99:%d", s.LocalAddr().Port())))
	for end := time.Now().Add(patience); ; {
		w.write(peer, "x")
		c := w.event(s, xtreme.EventPacket)
		w.NoError(c.Packet.Release())
		if !c.ViaKernel {
			break
		}
		w.True(time.Now().Before(end), "it still comes by the kernel")
	}
}

// A group joined on two interfaces comes from both, one opened with the socket and one when it was joined.
func TestGroupOnTwoInterfaces(t *testing.T) {
	for name, open := range map[string]func(w *cabled, g netip.AddrPort) *xtreme.Socket{
		"at once": func(w *cabled, g netip.AddrPort) *xtreme.Socket {
			return w.udp(g, xtreme.UDPConfig{Groups: []xtreme.Group{{Interface: "v0"}, {Interface: "v1"}}})
		},
		"one after the other": func(w *cabled, g netip.AddrPort) *xtreme.Socket {
			s := w.udp(g, xtreme.UDPConfig{Groups: []xtreme.Group{{Interface: "v0"}}})
			w.False(program(w.t, "v1"))
			w.NoError(s.JoinGroup(g.Addr(), "v1", netip.Addr{}))
			return s
		},
		"in steps, on the wildcard": func(w *cabled, g netip.AddrPort) *xtreme.Socket {
			s, err := w.poller.NewUDP(xtreme.IPv4, xtreme.UDPSocketConfig{})
			w.NoError(err)
			w.NoError(s.JoinGroup(g.Addr(), "v0", netip.Addr{}))
			w.False(program(w.t, "v0"), "it is not bound yet")
			w.NoError(s.Bind(netip.AddrPortFrom(netip.IPv4Unspecified(), g.Port())))
			w.True(program(w.t, "v0"))
			w.False(program(w.t, "v1"))
			w.NoError(s.JoinGroup(g.Addr(), "v1", netip.Addr{}))
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCabled(t, testnet.Pair{}, testnet.Pair{})
			g := netip.MustParseAddrPort("239.1.1.1:7400")
			s := open(w, g)
			w.True(program(t, "v0") && program(t, "v1"))
			w.Equal("bypass", s.Path().Tier)
			for i := range 2 {
				l, err := netlink.LinkByName(w.net.Device(i))
				w.NoError(err)
				peer := w.net.Listen(netip.AddrPortFrom(w.net.Peer(i), 0)) // its address says by which interface
				for range 10 {
					_, err = peer.WriteToUDPAddrPort([]byte("line"), g)
					w.NoError(err)
					c := w.event(s, xtreme.EventPacket)
					w.Equal("line", string(c.Packet.Bytes()))
					w.Equal(g, c.Destination)
					w.Equal(uint32(l.Attrs().Index), c.IfIndex)
					w.False(c.ViaKernel)
					w.NoError(c.Packet.Release())
				}
			}
		})
	}
}
