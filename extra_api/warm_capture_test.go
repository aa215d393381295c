package extraapi_test

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	extraapi "github.com/socketxtreme/socketxtreme/extra_api"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/epoll"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
	"github.com/socketxtreme/socketxtreme/ring/uring"
	"github.com/socketxtreme/socketxtreme/udp"
)

// capture is a packet socket on the peer's end of the cable.
type capture struct {
	t  *testing.T
	fd int
}

func newCapture(t *testing.T, n *testnet.Net) *capture {
	c := &capture{t: t}
	n.InPeer(func() {
		l, err := netlink.LinkByName("p0")
		require.NoError(t, err)
		all := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL))
		c.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all))
		require.NoError(t, err)
		require.NoError(t, unix.Bind(c.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: l.Attrs().Index}))
	})
	t.Cleanup(func() { _ = unix.Close(c.fd) })
	require.NoError(t, unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(patience / time.Second)}))
	return c
}

// upTo counts the frames of IPv4 and ARP before the one whose UDP payload is end. The kernels' IPv6 talks to itself meanwhile.
func (c *capture) upTo(end string) (frames int) {
	b := make([]byte, 2048)
	for limit := time.Now().Add(patience); ; {
		require.True(c.t, time.Now().Before(limit), "waiting for %q", end)
		n, err := unix.Read(c.fd, b)
		require.NoError(c.t, err, "waiting for %q", end)
		const payload = 14 + 20 + 8
		switch kind := binary.BigEndian.Uint16(b[12:]); {
		case kind == unix.ETH_P_IP && n >= payload+len(end) && string(b[payload:payload+len(end)]) == end:
			return frames
		case kind == unix.ETH_P_IP, kind == unix.ETH_P_ARP:
			frames++
		}
	}
}

// Nothing of a thousand warm sends is on the peer's side of a cable, with the neighbour known and unknown, over the kernel and over
// AF_XDP; what follows them is.
func TestWarmOnTheWire(t *testing.T) {
	for _, kind := range everyKind {
		t.Run(kind, func(t *testing.T) { warmOnTheWire(t, kind) })
	}
}

func warmOnTheWire(t *testing.T, kind string) {
	n := testnet.New(t, testnet.Pair{})
	pool := newPool(t, defaultLayout)
	c := ring.SetConfig{Transport: kernel.New(), Pool: pool, Kind: kind}
	switch kind {
	case "uring":
		if err := uring.Probe(); err != nil {
			testnet.Missing(t, "uring", err)
		}
		c.Driver = uring.New
	case "epoll":
		c.Driver = epoll.New
	case "offload":
		mirror, err := host.Open(host.Config{})
		require.NoError(t, err)
		exchange, err := offload.NewExchange(offload.ExchangeConfig{Host: mirror, Open: nic.XDP(xdp.Config{})})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, exchange.Close()); require.NoError(t, mirror.Close()) })
		c.OneRing = offload.OneRing
		c.Driver = offload.New(offload.Config{Exchange: exchange, Interfaces: []nic.Interface{{Name: n.Device(0), Checksum: udp.AcceptPartial}}})
	}
	set, err := ring.NewSet(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	s, err := set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{})
	require.NoError(t, err)
	require.NoError(t, s.Bind(netip.AddrPortFrom(n.Local(0), 7000)))
	peer := n.Listen(netip.AddrPortFrom(n.Peer(0), 0))
	to := peer.LocalAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort()
	tap := newCapture(t, n)
	dst := make([]ring.Completion, 8)
	poll := func() {
		_, err := s.Ring().Poll(dst)
		require.NoError(t, err)
	}
	real := func(text string) {
		_, err := s.SendTo([]byte(text), to)
		require.NoError(t, err)
		poll()
		b := make([]byte, 64)
		k, err := peer.Read(b)
		require.NoError(t, err)
		require.Equal(t, text, string(b[:k]))
	}
	real("begin")
	tap.upTo("begin")
	for range 1000 {
		require.NoError(t, extraapi.DummySend(s, []byte("warm"), to))
		poll()
	}
	real("end")
	require.Zero(t, tap.upTo("end"))
	require.Equal(t, uint64(1000), s.Stats().WarmSends)

	// A destination that nobody has asked for yet: no question either.
	stranger := netip.AddrPortFrom(netip.MustParseAddr("10.0.0.99"), 9)
	for range 100 {
		err := extraapi.DummySend(s, []byte("warm"), stranger)
		if kind == "offload" {
			require.ErrorIs(t, err, unix.EAGAIN)
		} else {
			require.NoError(t, err, "the kernel walks as far as the route, which is there")
		}
		poll()
	}
	real("end again")
	require.Zero(t, tap.upTo("end again"))
}
