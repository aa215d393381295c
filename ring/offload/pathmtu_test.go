package offload_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
)

// narrow is a way whose last link is narrower than ours: v0, the peer's kernel as a router, and a link of 1,000 bytes to 10.9.0.2, whose frames
// the test reads.
type narrow struct {
	t  *testing.T
	fd int
}

const narrowMTU = 1000

var beyond = netip.MustParseAddrPort("10.9.0.2:9")

func newNarrow(t *testing.T, n *testnet.Net) *narrow {
	w := &narrow{t: t}
	n.InPeer(func() {
		require.NoError(t, os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0))
		pair := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "r2"}
		pair.Name, pair.MTU = "r1", narrowMTU
		require.NoError(t, netlink.LinkAdd(pair))
		a, err := netlink.ParseAddr("10.9.0.1/24")
		require.NoError(t, err)
		require.NoError(t, netlink.AddrAdd(linkOf(t, "r1"), a))
		require.NoError(t, netlink.LinkSetUp(linkOf(t, "r1")))
		require.NoError(t, netlink.LinkSetUp(linkOf(t, "r2")))
		// A station that r2 is not, or the router would send on what it gets there.
		neighbour(t, "r1", beyond.Addr(), net.HardwareAddr{2, 0, 0, 0, 0, 9})
		ip := uint16(unix.ETH_P_IP)
		w.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(ip>>8|ip<<8))
		require.NoError(t, err)
		require.NoError(t, unix.Bind(w.fd, &unix.SockaddrLinklayer{Protocol: ip>>8 | ip<<8, Ifindex: linkOf(t, "r2").Attrs().Index}))
		require.NoError(t, unix.SetsockoptTimeval(w.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50000}))
	})
	t.Cleanup(func() { _ = unix.Close(w.fd) })
	require.NoError(t, netlink.RouteAdd(&netlink.Route{Dst: &net.IPNet{IP: net.IPv4(10, 9, 0, 0), Mask: net.CIDRMask(24, 32)},
		Gw: n.Peer(0).AsSlice()}))
	return w
}

// packets are the IP packets that come within some time: length, DF, MF and offset of each, and what they carry together.
func (w *narrow) packets() (shapes []string, payload int) {
	b := make([]byte, 4096)
	for {
		n, err := unix.Read(w.fd, b)
		if err != nil {
			return shapes, payload
		}
		if n < 20 || b[9] != unix.IPPROTO_UDP {
			continue
		}
		field := binary.BigEndian.Uint16(b[6:])
		shapes = append(shapes, fmt.Sprintf("%d df=%v mf=%v at %d", n, field&0x4000 != 0, field&0x2000 != 0, field&0x1fff*8))
		payload += n - 20
	}
}

// A datagram that fits our own link and not the next one: the router says so, the kernel has it from then on, and the stack cuts as a socket
// of the kernel does.
func TestPathMTUOfTheKernel(t *testing.T) {
	n := testnet.New(t, testnet.Pair{})
	far := newNarrow(t, n)
	f := newFaulty(t, faultConfig{device: "v0", fragment: true})
	s := f.bind("10.0.0.1:7000", ring.Config{})
	text := string(make([]byte, 1400))
	small := string(make([]byte, narrowMTU-28))
	f.NoError(f.send(s, beyond, text)) // too long: the router answers
	frames := f.counter("v0.tx_frames")
	f.NotZero(frames, "the first one left as a frame")
	var shapes []string
	for end := time.Now().Add(patience); len(shapes) == 0; {
		f.True(time.Now().Before(end), "a black hole: %v", f.counts())
		f.NoError(f.send(s, beyond, text))
		shapes, _ = far.packets()
	}
	f.Equal("bypass", s.Path().Tier)

	twin, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("10.0.0.1:7001")))
	f.NoError(err)
	defer func() { f.NoError(twin.Close()) }()
	for _, x := range []string{text, small, small + "x", string(make([]byte, 5000))} {
		_, err := twin.WriteToUDPAddrPort([]byte(x), beyond)
		f.NoError(err)
		want, length := far.packets()
		f.Equal(len(x)+8, length)
		f.NoError(f.send(s, beyond, x))
		got, length := far.packets()
		f.Equal(len(x)+8, length)
		f.Equal(want, got)
	}
	frames = f.counter("v0.tx_frames")
	f.NoError(f.send(s, beyond, small))
	f.Equal(frames+1, f.counter("v0.tx_frames"), "what fits leaves by the link")
	f.until("all sent", func() bool { return f.ring.Ledger().Transmitting == 0 })
}

// What the kernel learned for others holds for our sockets from the beginning, and one that may not cut is told how long a datagram may be.
func TestPathMTULearnedBefore(t *testing.T) {
	n := testnet.New(t, testnet.Pair{})
	far := newNarrow(t, n)
	twin, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("10.0.0.1:7001")))
	require.NoError(t, err)
	defer func() { require.NoError(t, twin.Close()) }()
	text := make([]byte, 1400)
	for end := time.Now().Add(patience); ; {
		require.True(t, time.Now().Before(end), "the kernel has not learned it")
		_, err = twin.WriteToUDPAddrPort(text, beyond)
		require.NoError(t, err)
		if shapes, _ := far.packets(); len(shapes) > 0 {
			break
		}
	}
	f := newFaulty(t, faultConfig{device: "v0"})
	s := f.bind("10.0.0.1:7000", ring.Config{})
	f.ErrorIs(f.send(s, beyond, string(text)), unix.EMSGSIZE)
	f.NoError(f.send(s, beyond, string(text[:narrowMTU-28])))
	shapes, _ := far.packets()
	f.Len(shapes, 1)
	f.Zero(f.counter("offload.os_sends"))
}
