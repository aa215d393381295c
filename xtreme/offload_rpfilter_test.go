package xtreme_test

import (
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// The kernel's reverse path filter does not see frames that are redirected: a datagram whose source has no route by its interface is dropped by
// the kernel and received by an offloaded socket, whose path says so.
func TestReversePathFilterIsPassedBy(t *testing.T) {
	for _, strict := range []bool{true, false} {
		w := newCabled(t, testnet.Pair{})
		if strict {
			w.NoError(os.WriteFile("/proc/sys/net/ipv4/conf/v0/rp_filter", []byte("1"), 0))
		}
		s := w.udp(w.at(0))
		w.Equal("bypass", s.Path().Tier)
		w.Equal(strict, has(s.Path(), "ip.rp_filter"), "%v", s.Path())
		if !strict {
			continue
		}
		kernel, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(w.at(0)))
		w.NoError(err)
		var peer *net.UDPConn
		w.net.InPeer(func() {
			l, err := netlink.LinkByName("p0")
			w.NoError(err)
			a, err := netlink.ParseAddr("10.99.0.5/32")
			w.NoError(err)
			w.NoError(netlink.AddrAdd(l, a))
			peer, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("10.99.0.5:0")))
			w.NoError(err)
		})
		_, err = peer.WriteToUDPAddrPort([]byte("from nowhere"), kernel.LocalAddr().(*net.UDPAddr).AddrPort())
		w.NoError(err)
		_, err = peer.WriteToUDPAddrPort([]byte("from nowhere"), s.LocalAddr())
		w.NoError(err)
		c := w.event(s, xtreme.EventPacket)
		w.False(c.ViaKernel)
		w.Equal("from nowhere", string(c.Packet.Bytes()))
		w.NoError(c.Packet.Release())
		w.Zero(w.read(kernel), "the kernel filters")
		w.NoError(kernel.Close())
		w.NoError(peer.Close())
	}
}
