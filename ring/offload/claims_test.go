package offload_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/steering"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// fakeSteering counts claims.
type fakeSteering struct {
	claims map[link.Flow]int
	refuse error
}

func (f *fakeSteering) Claim(x link.Flow) error {
	if f.refuse != nil {
		return f.refuse
	}
	f.claims[x]++
	return nil
}

func (f *fakeSteering) Release(x link.Flow) error { f.claims[x]--; return nil }

func (f *fakeSteering) list() (list []string) {
	for x, n := range f.claims {
		if n > 0 {
			list = append(list, fmt.Sprintf("%v %v %d %d", x.Local, x.Remote, x.VLAN, n))
		}
	}
	return list
}

// beside makes a ring beside the kernel whose link is no interface of it: sockets bound to 127.0.0.1 have their shadows there.
func beside(t *testing.T, claimer steering.Claimer) (*ring.Set, *buffers.DriverPool) {
	mirror, err := host.Open(host.Config{})
	require.NoError(t, err)
	pool, others := newPool(t, layout), newPool(t, layout)
	ours, theirs, err := memory.Pair(pool, others, memory.Config{Addrs: macs, Names: [2]string{"mem0", "mem1"}})
	require.NoError(t, err)
	lo, ok := mirror.Snapshot().LinkByName("lo")
	require.True(t, ok)
	set, err := ring.NewSet(ring.SetConfig{Transport: kernel.New(), Pool: pool, Kind: "offload", OneRing: offload.OneRing, Driver: offload.New(offload.Config{
		Links: []offload.Link{{Link: ours, Index: lo.Index, VLAN: 5, Steering: claimer}}, Host: mirror, ShadowEvery: 10})})
	require.NoError(t, err)
	_, err = set.NewRing()
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, set.Close())
		require.NoError(t, theirs.Close())
		require.NoError(t, mirror.Close())
	})
	return set, pool
}

func TestClaims(t *testing.T) {
	f := &fakeSteering{claims: map[link.Flow]int{}}
	set, _ := beside(t, f)
	socket := func(a string, change ...func(*ring.Socket)) *ring.Socket {
		s, err := set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{})
		require.NoError(t, err)
		for _, c := range change {
			c(s)
		}
		require.NoError(t, s.Bind(netip.MustParseAddrPort(a)))
		return s
	}
	share := func(s *ring.Socket) { require.NoError(t, s.SetReusePort(true)) }
	a, b := socket("127.0.0.1:0", share), (*ring.Socket)(nil)
	at := a.LocalAddr().String()
	b = socket(at, share)
	require.Equal(t, []string{at + " invalid AddrPort 5 1"}, f.list(), "once, however many sockets")
	dst := make([]ring.Completion, 8)
	end := func(s *ring.Socket) {
		require.NoError(t, s.Close())
		for range 100 {
			_, _ = set.Rings()[0].Poll(dst)
		}
	}
	end(a)
	require.Len(t, f.list(), 1)
	require.NoError(t, b.Connect(netip.MustParseAddrPort("127.0.0.1:9")))
	require.Equal(t, []string{at + " 127.0.0.1:9 5 1"}, f.list())
	end(b)
	require.Empty(t, f.list())

	w := socket("0.0.0.0:0")
	at = w.LocalAddr().String()
	require.Equal(t, []string{at + " invalid AddrPort 5 1"}, f.list())
	g := netip.MustParseAddr("233.252.0.9")
	if err := w.JoinGroup(g, "lo", netip.Addr{}); err == nil {
		require.Len(t, f.list(), 2)
		require.NoError(t, w.LeaveGroup(g, "lo", netip.Addr{}))
		require.Len(t, f.list(), 1)
	}
	end(w)
	require.Empty(t, f.list())

	// A claim that is refused costs the fast path, not the socket.
	f.refuse = errors.New("the map is full")
	s := socket("127.0.0.1:0")
	require.Contains(t, s.Path().Explain(), "the map is full [xdp.not_claimed]")
	require.Equal(t, "kernel", s.Path().Tier)
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(s.LocalAddr()))
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write([]byte("by the kernel"))
	require.NoError(t, err)
	for end := time.Now().Add(patience); ; {
		n, err := set.Rings()[0].Poll(dst)
		require.NoError(t, err)
		if n > 0 {
			require.Equal(t, "by the kernel", string(dst[0].Packet.Bytes()))
			require.True(t, dst[0].ViaKernel)
			require.NoError(t, dst[0].Packet.Release())
			break
		}
		require.True(t, time.Now().Before(end))
	}
	require.NotZero(t, counter(s.Ring(), "offload.os_packets"))
}
