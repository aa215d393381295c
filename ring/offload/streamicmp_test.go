package offload_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
)

// farHost is a namespace behind a router, which the peer's namespace is: 10.9.0.2, reached over a link that is narrower than ours.
type farHost struct {
	t  *testing.T
	n  *testnet.Net
	fd int
}

func newFarHost(t *testing.T, n *testnet.Net) *farHost {
	require.NoError(t, unix.Unshare(unix.CLONE_NEWNET)) // the test's thread
	fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, errors.Join(err, n.Enter()))
	h := &farHost{t, n, fd}
	t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	n.InPeer(func() {
		require.NoError(t, os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0))
		pair := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "r2", PeerNamespace: netlink.NsFd(fd), PeerMTU: 1500}
		pair.Name, pair.MTU = "r1", narrowMTU
		require.NoError(t, netlink.LinkAdd(pair))
		address(t, "r1", "10.9.0.1/24")
	})
	h.in(func() {
		address(t, "r2", "10.9.0.2/24")
		require.NoError(t, netlink.RouteAdd(&netlink.Route{Dst: network("10.0.0.0/24"), Gw: net.IPv4(10, 9, 0, 1)}))
	})
	require.NoError(t, netlink.RouteAdd(&netlink.Route{Dst: network("10.9.0.0/24"), Gw: n.Peer(0).AsSlice()}))
	require.NoError(t, netlink.RouteAdd(&netlink.Route{Dst: network("10.8.0.0/24"), Gw: n.Peer(0).AsSlice()}))
	return h
}

// in runs f in the far namespace.
func (h *farHost) in(f func()) {
	require.NoError(h.t, unix.Setns(h.fd, unix.CLONE_NEWNET))
	defer func() { require.NoError(h.t, h.n.Enter()) }()
	f()
}

func network(s string) *net.IPNet {
	_, n, _ := net.ParseCIDR(s)
	return n
}

// address gives an interface an address, and has it up.
func address(t *testing.T, name, a string) {
	x, err := netlink.ParseAddr(a)
	require.NoError(t, err)
	require.NoError(t, netlink.AddrAdd(linkOf(t, name), x))
	require.NoError(t, netlink.LinkSetUp(linkOf(t, name)))
}

// A router whose next link is narrower says so of a segment of a connection that our kernel does not have: the connection sends shorter ones,
// and later connections begin with them.
func TestStreamLearnsPathMTU(t *testing.T) {
	c, set := streamRing(t)
	far := newFarHost(t, c.Net)
	e := newEchoServer(t, listenTCP(t, set, "10.0.0.1:7000"))
	errorsOf := func() uint64 { return counter(e.listener.Ring(), "tcp.icmp_errors") }
	for round := range 2 {
		var fd int
		before := errorsOf()
		far.in(func() { fd = connecting(t, e.listener.LocalAddr()) })
		accepted := e.own
		e.until("connected", func() bool { return e.own > accepted })
		conn := fileConn(t, fd)
		const total = 1 << 20
		received := make(chan error, 1)
		go func() {
			b, err := io.ReadAll(io.LimitReader(conn, total))
			if err == nil && !bytes.Equal(b, bytes.Repeat([]byte("0123456789abcdef"), total/16)) {
				err = errors.New("other bytes")
			}
			received <- err
		}()
		for s := range e.open {
			e.send(s, bytes.Repeat([]byte("0123456789abcdef"), total/16))
		}
		var err error
		e.until("received", func() bool {
			select {
			case err = <-received:
				return true
			default:
				return false
			}
		})
		require.NoError(t, err)
		if round == 0 {
			require.NotZero(t, errorsOf())
		} else {
			require.Equal(t, before, errorsOf(), "the first connection has learned it for all")
		}
		require.Zero(t, counter(e.listener.Ring(), "tcp.black_holes"))
		require.NoError(t, conn.Close())
		e.until("closed", func() bool { return len(e.open) == 0 })
	}
}

// What routers and hosts say of a connection that is being opened: that nobody has the port ends it at once, that the host cannot be reached now
// does not.
func TestStreamIsToldOfUnreachablePeers(t *testing.T) {
	c, set := streamRing(t)
	newFarHost(t, c.Net)
	var packets, answers int
	c.InPeer(func() {
		require.NoError(t, netlink.RouteAdd(&netlink.Route{Dst: network("10.8.0.1/32"), Type: unix.RTN_BLACKHOLE}))
		require.NoError(t, netlink.RouteAdd(&netlink.Route{Dst: network("10.8.0.2/32"), Type: unix.RTN_UNREACHABLE}))
		var err error
		ip := uint16(unix.ETH_P_IP)
		packets, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(ip>>8|ip<<8))
		require.NoError(t, err)
		require.NoError(t, unix.Bind(packets, &unix.SockaddrLinklayer{Protocol: ip>>8 | ip<<8, Ifindex: linkOf(t, "p0").Attrs().Index}))
		require.NoError(t, unix.SetsockoptTimeval(packets, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 20000}))
		answers, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		require.NoError(t, err)
	})
	defer func() { require.NoError(t, errors.Join(unix.Close(packets), unix.Close(answers))) }()
	var stop atomic.Bool
	ended := make(chan struct{})
	go func() { // a host that answers each SYN to 10.8.0.1 with "port unreachable", as a firewall that rejects does
		defer close(ended)
		b := make([]byte, 2048)
		for !stop.Load() {
			n, err := unix.Read(packets, b)
			if err != nil || n < 40 || b[9] != wire.ProtocolTCP || [4]byte(b[16:20]) != [4]byte{10, 8, 0, 1} {
				continue
			}
			x := wire.ICMPError{Type: wire.ICMPUnreachable, Code: wire.ICMPPort, Packet: b[:n]}
			message, err := x.Append(nil)
			if err != nil || unix.Sendto(answers, message, 0, &unix.SockaddrInet4{Addr: [4]byte{10, 0, 0, 1}}) != nil {
				t.Errorf("the answer: %v", err)
			}
		}
	}()
	defer func() { stop.Store(true); <-ended }()

	connect := func(to string) error {
		end := time.Now().Add(patience)
		s, err := set.NewSocket(ring.KindStream, ring.IPv4, ring.Config{})
		require.NoError(t, err)
		for err = s.Connect(netip.MustParseAddrPort(to)); errors.Is(err, unix.ENETUNREACH) && time.Now().Before(end); {
			// The mirror of the host does not have the new routes yet.
			time.Sleep(time.Millisecond)
			require.NoError(t, s.Close())
			s, err = set.NewSocket(ring.KindStream, ring.IPv4, ring.Config{})
			require.NoError(t, err)
			err = s.Connect(netip.MustParseAddrPort(to))
		}
		require.NoError(t, err)
		dst := make([]ring.Completion, 8)
		for {
			n, err := s.Ring().Poll(dst)
			require.NoError(t, err)
			for i := range dst[:n] {
				if dst[i].Events.Has(ring.EventHup) {
					require.NoError(t, s.Close())
					return dst[i].Err
				}
			}
			require.True(t, time.Now().Before(end), "%v", s.Ring().Stats().Driver)
		}
	}
	require.ErrorIs(t, connect("10.8.0.1:80"), unix.ECONNREFUSED)
	before := time.Now()
	err := connect("10.8.0.2:80")
	require.ErrorIs(t, err, unix.ETIMEDOUT)
	require.Greater(t, time.Since(before), 100*time.Millisecond, "it was tried again")
}
