package xtreme_test

import (
	"context"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// headerReader is a kernel's socket in the present namespace that tells the TTL and TOS of what it receives, member of a group on an interface.
func (w *world) headerReader(g netip.AddrPort, iface string) *net.UDPConn {
	w.t.Helper()
	c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) {
			for _, option := range []int{unix.IP_RECVTTL, unix.IP_RECVTOS} {
				w.NoError(unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, option, 1))
			}
		})
	}}
	p, err := c.ListenPacket(context.Background(), "udp4", netip.AddrPortFrom(netip.IPv4Unspecified(), g.Port()).String())
	w.NoError(err)
	w.t.Cleanup(func() { _ = p.Close() })
	ifi, err := net.InterfaceByName(iface)
	w.NoError(err)
	w.NoError(ipv4.NewPacketConn(p).JoinGroup(ifi, &net.UDPAddr{IP: g.Addr().AsSlice()}))
	w.NoError(p.SetReadDeadline(time.Now().Add(patience)))
	return p.(*net.UDPConn)
}

// headers reads a datagram and returns its TTL and TOS.
func (w *world) headers(c *net.UDPConn, text string) (ttl, tos int) {
	w.t.Helper()
	b, control := make([]byte, 64), make([]byte, 128)
	n, k, _, _, err := c.ReadMsgUDP(b, control)
	w.NoError(err)
	w.Equal(text, string(b[:n]))
	messages, err := unix.ParseSocketControlMessage(control[:k])
	w.NoError(err)
	for _, m := range messages {
		switch m.Header.Type {
		case unix.IP_TTL:
			ttl = int(m.Data[0])
		case unix.IP_TOS:
			tos = int(m.Data[0])
		}
	}
	return ttl, tos
}

// What a dual-stack socket is told holds for what it sends to IPv4 as well: the interface, time to live and loop of multicast, TTL and TOS. The
// kernel keeps a value of each for either protocol.
func TestOptionsOfADualStackSocket(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		w := &cabled{net: testnet.New(t, testnet.Pair{}, testnet.Pair{}), world: &world{Assertions: require.New(t), t: t, room: 64}}
		w.engine = w.newEngine(func(s *conf.Settings) { s.Ring = kind })
		w.poller = w.newPoller("test")
		g := netip.AddrPortFrom(group(90), 7690)
		var there *net.UDPConn
		w.net.InPeer(func() { there = w.headerReader(g, "p1") })
		here := w.headerReader(g, w.net.Device(1))

		c := xtreme.UDPConfig{IPConfig: xtreme.IPConfig{TTL: 77, TOS: 0x48}, MulticastInterface: w.net.Device(1), MulticastTTL: 5}
		s := w.udp(netip.MustParseAddrPort("[::]:0"), c)
		w.sendTo(s, "to the group", g)
		ttl, tos := w.headers(there, "to the group")
		w.Equal([2]int{5, 0x48}, [2]int{ttl, tos}, "TTL and TOS of multicast")
		ttl, _ = w.headers(here, "to the group")
		w.Equal(5, ttl, "what is looped")
		w.sendTo(s, "to one", netip.AddrPortFrom(w.net.Peer(1), g.Port()))
		ttl, tos = w.headers(there, "to one")
		w.Equal([2]int{77, 0x48}, [2]int{ttl, tos}, "TTL and TOS of unicast")

		w.NoError(s.SetMulticastLoop(false))
		w.sendTo(s, "not here", g)
		w.headers(there, "not here")
		w.NoError(s.SetMulticastLoop(true))
		w.sendTo(s, "here again", g)
		w.headers(there, "here again")
		w.headers(here, "here again")
	})
}
