package offload_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
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

// memoryDevice is a device of one queue, which is an end of a memory link.
type memoryDevice struct {
	steering.Claimer
	end  *memory.End
	info link.Info
}

func (memoryDevice) AddAddr(netip.Addr, uint16) error           { return nil }
func (memoryDevice) RemoveAddr(netip.Addr, uint16) error        { return nil }
func (memoryDevice) Pass(link.Flow) error                       { return nil }
func (memoryDevice) StopPassing(link.Flow) error                { return nil }
func (memoryDevice) Queues() []int                              { return []int{0} }
func (memoryDevice) OpenGuard() (nic.Guard, error)              { return nil, nil }
func (d memoryDevice) Info() link.Info                          { return d.info }
func (d memoryDevice) Path() link.Path                          { return d.end.Path() }
func (memoryDevice) Check() error                               { return nil }
func (memoryDevice) Counters(dst []link.Counter) []link.Counter { return dst }
func (memoryDevice) Close() error                               { return nil }
func (memoryDevice) OnLost(func())                              {}
func (d memoryDevice) PrepareQueue(int, *buffers.DriverPool, int) (link.Staged, error) {
	return d.end, nil
}

// besideKernel makes an exchange on the kernel's tables. Its device, of whichever interface it is asked for, is an end of a memory link by
// which nothing comes. What the kernel gets arrives by the shadows.
func besideKernel(t *testing.T, pool *buffers.DriverPool, claimer steering.Claimer) *offload.Exchange {
	mirror, err := host.Open(host.Config{})
	require.NoError(t, err)
	ours, theirs, err := memory.Pair(pool, newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 64, Headroom: 192}), memory.Config{Addrs: macs})
	require.NoError(t, err)
	x, err := offload.NewExchange(offload.ExchangeConfig{Host: mirror, Open: func(name string, _ nic.Patience) (nic.Device, error) {
		l, ok := mirror.Snapshot().LinkByName(name)
		if !ok {
			return nil, unix.ENODEV
		}
		info := ours.Info()
		info.Name, info.Index = name, l.Index
		return memoryDevice{claimer, ours, info}, nil
	}})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, x.Close())
		require.NoError(t, theirs.Close())
		require.NoError(t, mirror.Close())
	})
	return x
}

// beside makes a ring beside the kernel: sockets bound to 127.0.0.1 have their shadows there.
func beside(t *testing.T, claimer steering.Claimer) (*ring.Set, *buffers.DriverPool) {
	pool := newPool(t, layout)
	set, err := ring.NewSet(ring.SetConfig{Transport: kernel.New(), Pool: pool, Kind: "offload", OneRing: offload.OneRing, Driver: offload.New(offload.Config{
		Exchange: besideKernel(t, pool, claimer), Interfaces: []nic.Interface{{Name: "lo"}}, ShadowEvery: 10})})
	require.NoError(t, err)
	_, err = set.NewRing()
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, set.Close())
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
	require.Equal(t, []string{at + " invalid AddrPort 0 1"}, f.list(), "once, however many sockets")
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
	require.Equal(t, []string{at + " 127.0.0.1:9 0 1"}, f.list())
	end(b)
	require.Empty(t, f.list())

	w := socket("0.0.0.0:0")
	at = w.LocalAddr().String()
	require.Equal(t, []string{at + " invalid AddrPort 0 1"}, f.list())
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
