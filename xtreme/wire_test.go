package xtreme_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Broadcasts to the subnet and to all reach offloaded sockets that are bound to any address, or to that one, and no others; who may
// (Broadcast) sends them.
func TestBroadcastOverACable(t *testing.T) {
	w := newCabled(t)
	wild := w.udp(netip.AddrPortFrom(netip.IPv4Unspecified(), 7400), xtreme.UDPConfig{Broadcast: true})
	subnet := w.udp(netip.MustParseAddrPort("10.0.0.255:7401"))
	own := w.udp(netip.AddrPortFrom(w.net.Local(0), 7402))
	for _, s := range []*xtreme.Socket{wild, subnet, own} {
		w.Equal("bypass", s.Path().Tier, s.Path())
	}
	peer := w.broadcaster(7403)
	to := func(a string) {
		_, err := peer.WriteToUDPAddrPort([]byte(a), netip.MustParseAddrPort(a))
		w.NoError(err)
	}
	heard := func(s *xtreme.Socket, a string) {
		w.t.Helper()
		c := w.event(s, xtreme.EventPacket)
		w.Equal(a, string(c.Packet.Bytes()))
		w.Equal(s == wild, c.ViaKernel, "the kernel gives those for any address to all who are to receive them")
		w.Equal(netip.MustParseAddrPort(a), c.Destination)
		w.NoError(c.Packet.Release())
	}
	for range 3 {
		to("10.0.0.255:7400")
		heard(wild, "10.0.0.255:7400")
		to("255.255.255.255:7400")
		heard(wild, "255.255.255.255:7400")
		to("10.0.0.255:7401")
		heard(subnet, "10.0.0.255:7401")
	}
	to("10.0.0.255:7402")
	w.silent(20 * time.Millisecond)

	_, err := own.SendTo([]byte("not allowed"), netip.MustParseAddrPort("10.0.0.255:7403"))
	w.ErrorIs(err, unix.EACCES)
	byKernel := counter(wild.Ring(), "offload.os_sends")
	w.sendTo(wild, "to all", netip.MustParseAddrPort("10.0.0.255:7403"))
	w.NoError(w.poller.Flush())
	w.Equal(byKernel+1, counter(wild.Ring(), "offload.os_sends"), "and sends them")
	b := make([]byte, 64)
	n, from, err := peer.ReadFromUDPAddrPort(b)
	w.NoError(err)
	w.Equal("to all", string(b[:n]))
	w.Equal(netip.AddrPortFrom(w.net.Local(0), 7400).String(), from.String())
	for _, s := range []*xtreme.Socket{wild, subnet, own} {
		w.close(s)
	}
}

// A socket that is bound to a broadcast address sends with the source that the route has, as in Linux: to one host, and to all.
func TestSendsOfASocketBoundToABroadcastAddress(t *testing.T) {
	onEachCable(t, func(w *cabled, _ bool) {
		peer := w.broadcaster(7405)
		for port, at := range map[uint16]string{7406: "10.0.0.255", 7407: "255.255.255.255"} {
			s := w.udp(netip.AddrPortFrom(netip.MustParseAddr(at), port), xtreme.UDPConfig{Broadcast: true})
			for range 2 {
				for _, to := range []string{"10.0.0.2:7405", "10.0.0.255:7405"} {
					_, err := s.SendTo([]byte(to), netip.MustParseAddrPort(to))
					w.NoError(err, "from %s to %s", at, to)
					w.NoError(w.poller.Flush())
					b := make([]byte, 64)
					n, from, err := peer.ReadFromUDPAddrPort(b)
					w.NoError(err)
					w.Equal(to, string(b[:n]))
					w.Equal(netip.AddrPortFrom(w.net.Local(0), port).String(), from.String())
				}
			}
			w.close(s)
		}
	})
}

// broadcaster is a socket of the peer's kernel that may send to the broadcast addresses of pair 0.
func (w *cabled) broadcaster(port uint16) *net.UDPConn {
	w.t.Helper()
	c := w.net.Listen(netip.AddrPortFrom(netip.IPv4Unspecified(), port))
	raw, err := c.SyscallConn()
	w.NoError(err)
	w.NoError(raw.Control(func(fd uintptr) {
		w.NoError(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BROADCAST, 1))
		w.NoError(unix.BindToDevice(int(fd), "p0")) // 255.255.255.255 has no route
	}))
	return c
}

// VMA_OFFLOADED_SOCKETS=0 leaves to the kernel what would have been offloaded, on a poller of that kind, but for a socket that requires it.
func TestSocketsOfAnOffloadedPollerLeftToTheKernel(t *testing.T) {
	w := newCabled(t)
	w.engine = w.newEngine(func(s *conf.Settings) { s.KernelOnly = true })
	w.poller = w.newPoller("kernel only")
	s := w.udp(w.at(0))
	w.Equal("kernel", s.Path().Tier)
	w.Contains(reason(t, s, "setting.offloaded_sockets"), "VMA_OFFLOADED_SOCKETS=0")
	w.write(w.net.Dial(s.LocalAddr()), "by the kernel")
	w.Equal("by the kernel", w.text(s))
	w.False(program(t, w.net.Device(0)), "no program was put on the interface")
	required := w.udp(w.at(0), xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
	w.Equal("bypass", required.Path().Tier)
	w.close(required)
	_, err := w.poller.OpenUDP(w.at(0), xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true, KernelOnly: true}})
	w.ErrorIs(err, ring.ErrNotSupported)
	w.close(s)
}

// A socket on any address receives the broadcasts of its subnet and those to all, by the kernel on each kind of ring.
func TestBroadcastsToAnyAddress(t *testing.T) {
	onEachCable(t, func(w *cabled, offloaded bool) {
		s := w.udp(netip.AddrPortFrom(netip.IPv4Unspecified(), 7408))
		peer := w.broadcaster(7409)
		for range 3 {
			for _, to := range []string{"10.0.0.255:7408", "255.255.255.255:7408"} {
				_, err := peer.WriteToUDPAddrPort([]byte(to), netip.MustParseAddrPort(to))
				w.NoError(err)
				c := w.event(s, xtreme.EventPacket)
				w.Equal(to, string(c.Packet.Bytes()))
				w.Equal(offloaded, c.ViaKernel)
				w.NoError(c.Packet.Release())
			}
		}
		w.close(s)
	})
}
