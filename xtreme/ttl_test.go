package xtreme_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// What leaves by a link has the time to live that was asked for, 1 for groups without; multicast leaves by the interface that was asked for,
// and members on this host get it unless MulticastLoop says no: on each kind of ring, as the peer sees it.
func TestSendOptionsSeenByThePeer(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		cabled := newCabled(t, testnet.Pair{}, testnet.Pair{})
		w := cabled.world
		w.engine = cabled.newEngine(func(s *conf.Settings) { s.Ring = kind })
		w.poller = cabled.newPoller("sender")
		const port = 9300
		g := netip.AddrPortFrom(group(71), port)
		peers := []*net.UDPConn{listenForTTL(cabled, 0, g), listenForTTL(cabled, 1, g)}
		open := func(c xtreme.UDPConfig) *xtreme.Socket {
			s := w.udp(cabled.at(0), c)
			w.Equal(kind == conf.RingOffload, s.Path().Tier == "bypass", s.Path())
			return s
		}
		member := w.udp(netip.AddrPortFrom(netip.IPv4Unspecified(), port), xtreme.UDPConfig{Groups: []xtreme.Group{{Address: g.Addr(),
			Interface: cabled.net.Device(0)}}})
		send := func(s *xtreme.Socket, to netip.AddrPort) {
			w.sendTo(s, "x", to)
			w.NoError(w.poller.Flush())
		}
		unicast := open(xtreme.UDPConfig{IPConfig: xtreme.IPConfig{TTL: 9}})
		send(unicast, netip.AddrPortFrom(cabled.net.Peer(0), port))
		w.Equal(9, ttlOf(w, peers[0]))

		plain := open(xtreme.UDPConfig{MulticastInterface: cabled.net.Device(0)})
		send(plain, g)
		w.Equal(1, ttlOf(w, peers[0]))
		w.Equal("x", w.text(member))

		quiet := open(xtreme.UDPConfig{MulticastInterface: cabled.net.Device(0), MulticastTTL: 17, MulticastLoop: xtreme.Off})
		send(quiet, g)
		w.Equal(17, ttlOf(w, peers[0]))
		w.silent(10 * time.Millisecond)

		elsewhere := open(xtreme.UDPConfig{MulticastInterface: cabled.net.Device(1), MulticastTTL: 3})
		send(elsewhere, g)
		w.Equal(3, ttlOf(w, peers[1]))
		w.NoError(elsewhere.SetMulticastInterface("")) // by the route again, which is the first link's
		send(elsewhere, g)
		w.Equal(3, ttlOf(w, peers[0]))
		w.poll()
		for i := range w.kept { // of the member, where the kernel gives it what left by another interface
			w.NoError(w.kept[i].Packet.Release())
		}
		w.kept = nil
		for _, s := range []*xtreme.Socket{unicast, plain, quiet, elsewhere, member} {
			w.close(s)
		}
	})
}

// listenForTTL is a kernel socket of the peer, member of a group on one of its interfaces, which is told the time to live of what it receives.
func listenForTTL(c *cabled, pair int, g netip.AddrPort) (p *net.UDPConn) {
	c.net.InPeer(func() {
		lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
			e := raw.Control(func(fd uintptr) {
				device, _ := net.InterfaceByName(fmt.Sprintf("p%d", pair))
				err = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.BindToDevice(int(fd), device.Name),
					unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVTTL, 1),
					unix.SetsockoptIPMreqn(int(fd), unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP,
						&unix.IPMreqn{Multiaddr: g.Addr().As4(), Ifindex: int32(device.Index)}))
			})
			return errors.Join(e, err)
		}}
		conn, err := lc.ListenPacket(context.Background(), "udp4", fmt.Sprintf("0.0.0.0:%d", g.Port()))
		c.NoError(err)
		p = conn.(*net.UDPConn)
	})
	c.t.Cleanup(func() { _ = p.Close() })
	c.NoError(p.SetReadDeadline(time.Now().Add(patience)))
	return p
}

// ttlOf receives a datagram and returns its time to live.
func ttlOf(w *world, p *net.UDPConn) int {
	w.t.Helper()
	oob := make([]byte, 64)
	_, n, _, _, err := p.ReadMsgUDP(make([]byte, 64), oob)
	w.NoError(err)
	list, err := unix.ParseSocketControlMessage(oob[:n])
	w.NoError(err)
	for _, m := range list {
		if m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_TTL {
			return int(m.Data[0])
		}
	}
	return -1
}
