package xtreme_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// kernelSocket is a socket of the kernel's on the wildcard address, tied to an interface or a member of a group there.
func (w *cabled) kernelSocket(port uint16, device string, group netip.Addr, on string) *net.UDPConn {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		_ = c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
			if device != "" {
				err = errors.Join(err, unix.BindToDevice(int(fd), device))
			}
			if group.IsValid() {
				m := &unix.IPMreqn{Multiaddr: group.As4(), Ifindex: int32(w.index(on))}
				err = errors.Join(err, unix.SetsockoptIPMreqn(int(fd), unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, m))
			}
		})
		return err
	}}
	p, err := lc.ListenPacket(context.Background(), "udp4", netip.AddrPortFrom(netip.IPv4Unspecified(), port).String())
	w.NoError(err)
	w.t.Cleanup(func() { _ = p.Close() })
	return p.(*net.UDPConn)
}

func (w *cabled) index(name string) int {
	l, err := netlink.LinkByName(name)
	w.NoError(err)
	return l.Attrs().Index
}

// groupSender sends to a group from the other end of a pair.
func (w *cabled) groupSender(pair int, peer string, to netip.AddrPort) (c *net.UDPConn) {
	w.net.InPeer(func() {
		var err error
		c, err = net.DialUDP("udp4", &net.UDPAddr{IP: w.net.Peer(pair).AsSlice()}, net.UDPAddrFromAddrPort(to))
		w.NoError(err)
		raw, err := c.SyscallConn()
		w.NoError(err)
		index := w.index(peer)
		w.NoError(raw.Control(func(fd uintptr) {
			err = unix.SetsockoptIPMreqn(int(fd), unix.IPPROTO_IP, unix.IP_MULTICAST_IF, &unix.IPMreqn{Ifindex: int32(index)})
		}))
		w.NoError(err)
	})
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// receives polls until the kernel's socket has got n datagrams.
func (w *cabled) receives(k *net.UDPConn, n int) {
	w.t.Helper()
	b := make([]byte, 16)
	for end := time.Now().Add(patience); n > 0; {
		w.poll()
		w.NoError(k.SetReadDeadline(time.Now().Add(time.Millisecond)))
		_, _, err := k.ReadFrom(b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			w.True(time.Now().Before(end), "%d have not come; %v", n, w.poller.Rings()[0].Stats().Driver)
			continue
		}
		w.NoError(err)
		n--
	}
}

// A socket has packets of the interfaces that it is on; on the others they are the kernel's, whether the poller has those interfaces or not.
func TestOtherInterfacesStayWithTheKernel(t *testing.T) {
	group := netip.MustParseAddrPort("239.9.9.9:5001")
	for _, order := range []string{"alone", "opened before", "opened after"} {
		t.Run(order, func(t *testing.T) {
			w := newCabled(t, testnet.Pair{}, testnet.Pair{})
			tied := w.kernelSocket(5000, "v1", netip.Addr{}, "")
			member := w.kernelSocket(group.Port(), "", group.Addr(), "v1")
			if order == "opened before" {
				w.udp(w.at(1))
			}
			s := w.udp(netip.MustParseAddrPort("0.0.0.0:5000"), xtreme.UDPConfig{IPConfig: xtreme.IPConfig{BindToDevice: "v0"}})
			g := w.udp(group, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReuseAddr: true}, Groups: []xtreme.Group{{Interface: "v0"}}})
			if order == "opened after" {
				w.udp(w.at(1))
			}
			one := w.net.Dial(netip.AddrPortFrom(w.net.Local(1), 5000))
			many := w.groupSender(1, "p1", group)
			for range 5 {
				w.write(one, "x")
				w.write(many, "x")
			}
			w.receives(tied, 5)
			w.receives(member, 5)
			w.Empty(w.kept)

			// On its own interface it has them, by the link.
			answers(w.world, s, w.net.Dial(netip.AddrPortFrom(w.net.Local(0), 5000)))
			w.write(w.groupSender(0, "p0", group), "for the group")
			c := w.event(g, xtreme.EventPacket)
			w.False(c.ViaKernel)
			w.NoError(c.Packet.Release())
		})
	}
}

// An interface on which a socket has a group is deleted: its options, and its groups elsewhere, can be changed as before, and the group
// there can be left by the name that it was joined with.
func TestOptionsAfterAnInterfaceWasDeleted(t *testing.T) {
	w := newCabled(t, testnet.Pair{}, testnet.Pair{})
	s := w.udp(netip.MustParseAddrPort("0.0.0.0:5002"))
	gone, there := netip.MustParseAddr("239.1.1.1"), netip.MustParseAddr("239.1.1.2")
	source := netip.MustParseAddr("10.9.9.9")
	w.NoError(s.JoinGroup(gone, "v0", netip.Addr{}))
	w.NoError(s.JoinGroup(netip.MustParseAddr("239.1.1.4"), "v0", source))
	w.NoError(s.JoinGroup(there, "v1", netip.Addr{}))
	l, err := netlink.LinkByName("v0")
	w.NoError(err)
	w.NoError(netlink.LinkDel(l))
	for !slices.Contains(codes(s.Path()), "link.gone") {
		w.event(s, xtreme.EventPath)
	}
	w.NoError(s.SetTTL(9))
	w.NoError(s.SetMulticastLoop(false))
	more := netip.MustParseAddr("239.1.1.3")
	w.NoError(s.JoinGroup(more, "v1", netip.Addr{}))
	peer := w.groupSender(1, "p1", netip.AddrPortFrom(more, 5002))
	w.write(peer, "joined afterwards")
	c := w.event(s, xtreme.EventPacket)
	w.False(c.ViaKernel)
	w.NoError(c.Packet.Release())
	w.NoError(s.LeaveGroup(there, "v1", netip.Addr{}))
	w.NoError(s.LeaveGroup(gone, "v0", netip.Addr{}))
	w.NoError(s.LeaveGroup(netip.MustParseAddr("239.1.1.4"), "v0", source))
	w.ErrorIs(s.LeaveGroup(gone, "v0", netip.Addr{}), unix.ENODEV, "it is left")
	w.NoError(s.SetTTL(10))
}

// An interface has room for 4,096 flows. A socket that finds none receives through the kernel, and its path says so; one that requires offload
// is refused. Where there is room again a new socket has it.
func TestTableOfFlowsIsFull(t *testing.T) {
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	if limit.Max < 5000 {
		testnet.Missing(t, "descriptors", fmt.Sprintf("5,000, the limit is %d", limit.Max))
	}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit.Max, Max: limit.Max}))
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }()
	w := newCabled(t)
	var list []*xtreme.Socket
	for range 5000 {
		s := w.udp(w.at(0))
		list = append(list, s)
		if has(s.Path(), "xdp.not_claimed") {
			break
		}
		w.Equal("bypass", s.Path().Tier)
	}
	last := list[len(list)-1]
	w.Equal("kernel", last.Path().Tier, last.Path())
	w.Contains(last.Path().Explain(), "the flow map is full (4096 entries)")
	w.InDelta(4096, len(list), 8, "addresses have entries too")
	w.write(w.net.Dial(last.LocalAddr()), "by the kernel")
	c := w.event(last, xtreme.EventPacket)
	w.Equal("by the kernel", string(c.Packet.Bytes()))
	w.True(c.ViaKernel)
	w.NoError(c.Packet.Release())
	_, err := w.poller.OpenUDP(w.at(0), xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
	w.ErrorContains(err, "xdp.not_claimed")
	w.close(list[0])
	again := w.udp(w.at(0), xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}})
	answers(w.world, again, w.net.Dial(again.LocalAddr()))
}
