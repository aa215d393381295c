package stack_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/transport/stack"
)

// end is one of two hosts with a link between them.
type end struct {
	t     *testing.T
	set   *ring.Set
	space *offload.MemoryHost
	pool  *buffers.DriverPool
}

func newEnds(t *testing.T) (ends [2]end) {
	l := buffers.Layout{SmallSize: 2048, SmallCount: 256, Headroom: 192}
	var pools [2]*buffers.DriverPool
	for i := range pools {
		region, err := sys.NewRegion(sys.RegionConfig{Bytes: l.Bytes()})
		require.NoError(t, err)
		pools[i], err = buffers.New(region.Bytes(), l)
		require.NoError(t, err)
		t.Cleanup(func() {
			ledger := pools[i].Ledger()
			require.Equal(t, ledger.Total, ledger.Free, "%v", ledger)
			require.NoError(t, region.Close())
		})
	}
	macs := [2][6]byte{{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}}
	a, b, err := memory.Pair(pools[0], pools[1], memory.Config{Addrs: macs, Names: [2]string{"mem0", "mem0"}})
	require.NoError(t, err)
	for i, l := range []*memory.End{a, b} {
		facts := offload.Facts(host.Link{Index: 1, Name: "mem0", Type: unix.ARPHRD_ETHER, MAC: macs[i], MTU: 1500,
			Flags: unix.IFF_UP | unix.IFF_LOWER_UP | unix.IFF_BROADCAST | unix.IFF_MULTICAST},
			netip.MustParsePrefix([]string{"10.0.0.1/24", "10.0.0.2/24"}[i]))
		space, err := offload.NewMemoryHost(facts, func() uint64 { return 4 })
		require.NoError(t, err)
		x, err := offload.NewExchange(offload.ExchangeConfig{MemoryHost: space, Open: nic.OpenLinks(space, map[string]link.Staged{"mem0": l})})
		require.NoError(t, err)
		set, err := ring.NewSet(ring.SetConfig{Pool: pools[i], Kind: "offload", Transport: space, OneRing: offload.OneRing,
			Driver: offload.New(offload.Config{Exchange: x, Interfaces: []nic.Interface{{Name: "mem0"}}})})
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, set.Close())
			require.NoError(t, x.Close())
		})
		ends[i] = end{t, set, space, pools[i]}
	}
	return ends
}

func (e *end) udp(at string, c ring.Config) *ring.Socket {
	s, err := e.set.NewSocket(ring.KindDatagram, ring.IPv4, c)
	require.NoError(e.t, err)
	require.NoError(e.t, s.Bind(netip.MustParseAddrPort(at)))
	return s
}

// poll polls until n completions came, releases their packets and returns the last.
func (e *end) poll(n int) (last ring.Completion) {
	dst := make([]ring.Completion, 16)
	for until := time.Now().Add(10 * time.Second); n > 0; {
		require.True(e.t, time.Now().Before(until), "%d completions are missing", n)
		k, err := e.set.Rings()[0].Poll(dst)
		require.NoError(e.t, err)
		for i := range dst[:k] {
			last = dst[i]
			_ = last.Packet.Release()
			n--
		}
	}
	return last
}

// answered makes the ends know each other's stations.
func answered(a, b *end, s *ring.Socket, to netip.AddrPort) {
	_, err := s.SendTo([]byte("who"), to)
	require.NoError(a.t, err)
	for until := time.Now().Add(10 * time.Second); ; {
		require.True(a.t, time.Now().Before(until), "no neighbour")
		dst := make([]ring.Completion, 4)
		_, err := a.set.Rings()[0].Poll(dst)
		require.NoError(a.t, err)
		n, err := b.set.Rings()[0].Poll(dst)
		require.NoError(a.t, err)
		if n > 0 {
			_ = dst[0].Packet.Release()
			return
		}
	}
}

// A socket has the stack's transport while it is on the ring, and the one it was made by before and afterwards.
func TestTheDriverGivesTheTransport(t *testing.T) {
	ends := newEnds(t)
	a := &ends[0]
	s, err := a.set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{})
	require.NoError(t, err)
	require.Equal(t, ring.Transport(a.space), ring.TransportOf(s))
	require.False(t, s.IsOffloaded())
	conn := ring.HandleOf(s).Conn
	require.NoError(t, s.Bind(netip.MustParseAddrPort("10.0.0.1:500")))
	require.IsType(t, &stack.Transport{}, ring.TransportOf(s))
	require.True(t, s.IsOffloaded())
	require.Equal(t, conn, ring.HandleOf(s).Conn, "the number of the transport below")
	require.NoError(t, s.SetTTL(7))
	require.ErrorIs(t, s.SetNoDelay(true), unix.ENOPROTOOPT, "options are kept below")
	require.NoError(t, s.Close())
	require.Equal(t, ring.EventClosed, a.poll(1).Events)
	require.Equal(t, ring.Transport(a.space), ring.TransportOf(s))
	require.NoError(t, a.udp("10.0.0.1:500", ring.Config{}).Close(), "its port is free")
	a.poll(1)
}

// What Send takes counts against Config.SendQueue until the flush; a refused send is notified of when there is room. What was not flushed
// is lost with its socket, and counted.
func TestUnsent(t *testing.T) {
	ends := newEnds(t)
	a, b := &ends[0], &ends[1]
	to := b.udp("10.0.0.2:600", ring.Config{}).LocalAddr()
	s := a.udp("10.0.0.1:500", ring.Config{SendQueue: 3})
	answered(a, b, s, to)
	x := ring.TransportOf(s).(ring.StackTransport)
	require.Zero(t, x.Unsent(s))
	for i := range 3 {
		_, err := s.SendTo([]byte("x"), to)
		require.NoError(t, err)
		require.Equal(t, i+1, x.Unsent(s))
	}
	n, e := x.Send(s, []byte("x"), to)
	require.Zero(t, n)
	require.Equal(t, unix.EALREADY, e)
	_, err := s.SendTo([]byte("x"), to)
	require.ErrorIs(t, err, ring.ErrWouldBlock)
	require.Equal(t, ring.EventOut, a.poll(1).Events)
	require.Zero(t, x.Unsent(s))
	b.poll(3)

	_, err = s.SendTo([]byte("lost"), to)
	require.NoError(t, err)
	require.NoError(t, s.Abort())
	require.EqualValues(t, 1, a.set.Rings()[0].Stats().LostSends)
	a.poll(1)
}

// Why a destination cannot be sent to.
func TestRefusals(t *testing.T) {
	ends := newEnds(t)
	s := ends[0].udp("10.0.0.1:500", ring.Config{})
	x := ring.TransportOf(s).(ring.StackTransport)
	for to, want := range map[netip.AddrPort]error{
		{}:                                       unix.EDESTADDRREQ,
		netip.MustParseAddrPort("10.0.0.2:0"):    unix.EINVAL,
		netip.MustParseAddrPort("[fe80::1]:9"):   unix.EAFNOSUPPORT,
		netip.MustParseAddrPort("10.99.0.1:9"):   unix.ENETUNREACH,
		netip.MustParseAddrPort("10.0.0.255:99"): unix.EACCES,
	} {
		require.ErrorIs(t, x.Prepare(s, to), want, "%v", to)
		_, e := x.Send(s, []byte("x"), to)
		require.ErrorIs(t, e, want, "%v", to)
	}
	_, e := x.Send(s, make([]byte, 70000), netip.MustParseAddrPort("10.0.0.2:9"))
	require.Equal(t, unix.EMSGSIZE, e)
}
