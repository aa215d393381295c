package offload_test

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/ringtest"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
	"github.com/socketxtreme/socketxtreme/udp"
)

// cable is a veth pair: v0 with 10.0.0.1 and 10.0.0.77, where the test's thread is and our links will be, and p0 with 10.0.0.2, where the
// kernel is the peer, its offloads as they are: its checksums are only partial.
type cable struct {
	*testnet.Net
	t        testing.TB
	exchange *offload.Exchange // that plug has made
	dev      nic.Device        // of v0, opened last
}

func newCable(t testing.TB, queues int) *cable {
	return &cable{Net: testnet.New(t, testnet.Pair{Queues: queues}), t: t}
}

// plug makes an exchange whose interface v0 a set is on.
func (c *cable) plug(sc *ring.SetConfig, config xdp.Config) {
	c.openExchange(config)
	sc.Kind, sc.OneRing = "offload", offload.OneRing
	sc.Driver = offload.New(offload.Config{Exchange: c.exchange, Fragment: true,
		Interfaces: []nic.Interface{{Name: "v0", Fill: config.Fill, Checksum: udp.AcceptPartial}}})
}

// openExchange makes the exchange and the mirror under it, which end with the test.
func (c *cable) openExchange(config xdp.Config) *host.Host {
	mirror, err := host.Open(host.Config{})
	require.NoError(c.t, err)
	config.Retry = letGo
	open := nic.XDP(config)
	c.exchange, err = offload.NewExchange(offload.ExchangeConfig{Host: mirror, Open: func(name string, p nic.Patience) (nic.Device, error) {
		d, err := open(name, p)
		if err == nil {
			c.dev = d
		}
		return d, err
	}})
	require.NoError(c.t, err)
	c.t.Cleanup(func() {
		require.NoError(c.t, c.exchange.Close())
		require.NoError(c.t, mirror.Close())
	})
	return mirror
}

func (c *cable) Local() netip.Addr                    { return c.Net.Local(0) }
func (c *cable) Other() netip.Addr                    { return c.Net.Other(0) }
func (c *cable) Device() string                       { return c.Net.Device(0) }
func (c *cable) Nobody() netip.AddrPort               { return netip.AddrPortFrom(c.Peer(0), 9) }
func (c *cable) Dial(to netip.AddrPort) ringtest.Peer { return c.Net.Dial(to) }

// The contract against a kernel peer over AF_XDP.
func TestContractOverVeth(t *testing.T) {
	ringtest.Run(t, ringtest.Backend{Name: "offload", Caps: contractCaps, Overshoot: overshoot,
		Datagrams: true, Stamp: ring.StampPoll, Burst: 8, Sleeps: wakeUps,
		Open: func(t *testing.T, pool *buffers.DriverPool, sc *ring.SetConfig) ringtest.Peers {
			c := newCable(t, 1)
			c.plug(sc, xdp.Config{})
			return c
		}})
}

// veth is a set on v0 with a bound socket.
func veth(t *testing.T, queues int, config xdp.Config) (*cable, *ring.Set, *ring.Socket) {
	pool := newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 2048, LargeSize: 65536, LargeCount: 8, Headroom: 192})
	c := newCable(t, queues)
	sc := ring.SetConfig{Transport: kernel.New(), Pool: pool}
	c.plug(&sc, config)
	set, err := ring.NewSet(sc)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	s, err := set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{LargestDatagram: 2048})
	require.NoError(t, err)
	require.NoError(t, s.Bind(netip.MustParseAddrPort("10.0.0.1:7000")))
	return c, set, s
}

// Frames that come in on any of four queues reach their socket, from senders on every processor.
func TestAnyQueue(t *testing.T) {
	c, _, s := veth(t, 4, xdp.Config{Fill: 256})
	const senders, each = 16, 200
	var peers []ringtest.Peer
	for range senders {
		p := c.Dial(s.LocalAddr())
		defer p.Close()
		peers = append(peers, p)
	}
	got, dst := 0, make([]ring.Completion, 64)
	poll := func() {
		n, err := s.Ring().Poll(dst)
		require.NoError(t, err)
		for i := range dst[:n] {
			require.NoError(t, dst[i].Packet.Release())
		}
		got += n
	}
	for i := range each {
		for j, p := range peers {
			if cpu := (i + j) % runtime.NumCPU(); j%2 == 0 {
				require.NoError(t, sys.PinThread(cpu))
			}
			_, err := p.Write([]byte("x"))
			require.NoError(t, err)
		}
		poll()
	}
	for end := time.Now().Add(patience); got < senders*each; poll() {
		require.True(t, time.Now().Before(end), "%d of %d: %v", got, senders*each, s.Ring().Stats().Driver)
	}
	queues := 0
	for _, x := range s.Ring().Stats().Driver {
		if strings.HasPrefix(x.Name, "v0/") && strings.HasSuffix(x.Name, ".rx_frames") && x.Value > 0 {
			queues++
		}
	}
	if runtime.NumCPU() > 1 {
		require.Greater(t, queues, 1, "the senders used one queue only")
	}
}

// When the steering program goes, the kernel has the traffic back and the socket lives on through its shadow.
func TestProgramGoes(t *testing.T) {
	c, _, s := veth(t, 1, xdp.Config{})
	peer := c.Dial(s.LocalAddr())
	defer peer.Close()
	require.NoError(t, peer.SetDeadline(time.Now().Add(patience)))
	dst := make([]ring.Completion, 64)
	next := func() (os bool) {
		for end := time.Now().Add(patience); ; {
			n, err := s.Ring().Poll(dst)
			if err != nil {
				require.ErrorContains(t, err, "v0") // a frame that was on its way, said once
			}
			if n > 0 {
				require.Equal(t, 1, n)
				require.NoError(t, dst[0].Packet.Release())
				return dst[0].ViaKernel
			}
			require.True(t, time.Now().Before(end), "nothing came: %v", s.Ring().Stats().Driver)
		}
	}
	_, err := peer.Write([]byte("x"))
	require.NoError(t, err)
	require.False(t, next())
	_, err = peer.Write(make([]byte, 5000))
	require.NoError(t, err)
	require.True(t, next(), "fragments are the kernel's")
	require.Equal(t, "bypass", s.Path().Tier)

	require.NoError(t, c.dev.Close())
	_, err = peer.Write([]byte("x"))
	require.NoError(t, err)
	require.True(t, next(), "by the shadow")
	for end := time.Now().Add(patience); s.Path().Tier != "kernel"; {
		require.True(t, time.Now().Before(end), "%v", s.Path())
		_, _ = s.Ring().Poll(dst)
	}
	require.Contains(t, s.Path().Explain(), "link.detached")
	_, err = s.SendTo([]byte("still here"), peer.LocalAddr().(*net.UDPAddr).AddrPort())
	require.NoError(t, err)
	b := make([]byte, 64)
	n, err := peer.Read(b)
	require.NoError(t, err)
	require.Equal(t, "still here", string(b[:n]))
}

// The kernel finds the neighbour; what was sent meanwhile leaves in order.
func TestKernelFindsTheNeighbour(t *testing.T) {
	c, _, s := veth(t, 1, xdp.Config{})
	l, err := netlink.LinkByName("v0")
	require.NoError(t, err)
	peer := c.Dial(s.LocalAddr())
	defer peer.Close()
	require.NoError(t, peer.SetDeadline(time.Now().Add(patience)))
	dst := make([]ring.Completion, 8)
	for end := time.Now().Add(patience); counter(s.Ring(), "stack.waited_for_neighbour") == 0; { // the mirror knows it soon
		require.True(t, time.Now().Before(end))
		// Again and again: when it is found before the mirror has told that it was lost, nothing waits.
		err := netlink.NeighDel(&netlink.Neigh{LinkIndex: l.Attrs().Index, IP: net.IPv4(10, 0, 0, 2)})
		require.True(t, err == nil || errors.Is(err, unix.ENOENT), "%v", err)
		_, err = s.SendTo([]byte("first"), peer.LocalAddr().(*net.UDPAddr).AddrPort())
		require.NoError(t, err)
		_, err = s.Ring().Poll(dst)
		require.NoError(t, err)
		if counter(s.Ring(), "stack.waited_for_neighbour") == 0 {
			b := make([]byte, 8)
			_, err = peer.Read(b)
			require.NoError(t, err)
			time.Sleep(time.Millisecond)
		}
	}
	_, err = s.SendTo([]byte("second"), peer.LocalAddr().(*net.UDPAddr).AddrPort())
	require.NoError(t, err)
	for end := time.Now().Add(patience); counter(s.Ring(), "v0.tx_frames") == 0 || s.Ring().Ledger().Transmitting > 0; {
		require.True(t, time.Now().Before(end), "%v", s.Ring().Stats().Driver)
		_, err = s.Ring().Poll(dst)
		require.NoError(t, err)
	}
	b := make([]byte, 8)
	for _, want := range []string{"first", "second"} {
		n, err := peer.Read(b)
		require.NoError(t, err)
		require.Equal(t, want, string(b[:n]))
	}
}
