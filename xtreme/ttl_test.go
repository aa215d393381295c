package xtreme_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
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

// Without SetTTL the time to live is the kernel's default (net.ipv4.ip_default_ttl), on each kind of ring and with our own TCP.
func TestDefaultTTL(t *testing.T) {
	const kernels = 33
	isDefault := func(w *cabled) {
		w.NoError(os.WriteFile("/proc/sys/net/ipv4/ip_default_ttl", []byte(strconv.Itoa(kernels)), 0))
	}
	t.Run("UDP", func(t *testing.T) {
		onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
			w := newCabled(t)
			isDefault(w)
			w.engine = w.newEngine(func(s *conf.Settings) { s.Ring = kind })
			w.poller = w.newPoller("sender")
			to := netip.AddrPortFrom(w.net.Peer(0), 9301)
			peer := listenForTTL(w, 0, netip.AddrPortFrom(group(72), to.Port()))
			s := w.udp(w.at(0))
			w.Equal(kind == conf.RingOffload, s.Path().Tier == "bypass", s.Path())
			w.sendTo(s, "x", to)
			w.NoError(w.poller.Flush())
			w.Equal(kernels, ttlOf(w.world, peer))
			w.NoError(s.SetTTL(9))
			w.sendTo(s, "x", to)
			w.NoError(w.poller.Flush())
			w.Equal(9, ttlOf(w.world, peer))
		})
	})
	t.Run("our own TCP", func(t *testing.T) {
		w := newCabled(t)
		isDefault(w)
		w.engine = w.newEngine(ownTCP)
		w.poller = w.newPoller("own TCP")
		l := w.listenInPeer()
		seen := capturedTTL(w, func() {
			c, err := w.poller.DialTCP(addr(l.Addr()), xtreme.DialConfig{})
			w.NoError(err)
			w.Equal("bypass", c.Path().Tier, c.Path())
			w.event(c, xtreme.EventOut)
		})
		w.Equal(kernels, seen)
	})
}

// capturedTTL is the time to live of the first TCP segment that comes to the peer's end while f runs.
func capturedTTL(w *cabled, f func()) int {
	fd := -1
	w.net.InPeer(func() {
		var err error
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.ETH_P_IP>>8|unix.ETH_P_IP&0xff<<8)
		w.NoError(err)
	})
	defer unix.Close(fd)
	limit := unix.NsecToTimeval(int64(patience))
	w.NoError(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit))
	f()
	packet := make([]byte, 2048)
	for {
		_, from, err := unix.Recvfrom(fd, packet, 0)
		w.NoError(err)
		if from.(*unix.SockaddrLinklayer).Pkttype != unix.PACKET_OUTGOING && packet[9] == unix.IPPROTO_TCP {
			return int(packet[8])
		}
	}
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
