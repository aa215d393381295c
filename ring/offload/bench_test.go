package offload_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/ringtest/null"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

var layout = buffers.Layout{SmallSize: 2048, SmallCount: 512, LargeSize: 65536, LargeCount: 8, Headroom: 192}

// ends are two hosts on one wire, both of this goroutine.
type ends struct {
	t      testing.TB
	pools  [2]*buffers.DriverPool
	sets   [2]*ring.Set
	spaces [2]*offload.MemoryHost
	dst    []ring.Completion
	kept   [2][]ring.Completion // seen by next and not asked for yet
}

func newEnds(t testing.TB, c memory.Config, change ...func(*ring.SetConfig)) *ends {
	e := &ends{t: t, dst: make([]ring.Completion, 64)}
	for i := range 2 {
		e.pools[i] = newPool(t, layout)
	}
	c.Addrs, c.Names = macs, [2]string{"mem0", "mem0"}
	if c.MTU == 0 {
		c.MTU = 1500
	}
	a, b, err := memory.Pair(e.pools[0], e.pools[1], c)
	require.NoError(t, err)
	for i, l := range []*memory.End{a, b} {
		sc := ring.SetConfig{Transport: kernel.New(), Pool: e.pools[i]}
		e.spaces[i] = side(t, i, l, c.MTU, &sc)
		for _, f := range change {
			f(&sc)
		}
		e.sets[i], err = ring.NewSet(sc)
		require.NoError(t, err)
		_, err = e.sets[i].NewRing()
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		for i := range 2 {
			require.NoError(t, e.sets[i].Close())
		}
	})
	return e
}

// udp makes a socket of a host, bound to its address.
func (e *ends) udp(i int, c ring.Config) *ring.Socket {
	s, err := e.sets[i].NewSocket(ring.KindDatagram, ring.IPv4, c)
	require.NoError(e.t, err)
	require.NoError(e.t, s.Bind(netip.AddrPortFrom(subnets[i][0].Addr(), 0)))
	return s
}

// connect makes a connected pair of sockets.
func (e *ends) connect(c ring.Config) (a, b *ring.Socket) {
	a, b = e.udp(0, c), e.udp(1, c)
	require.NoError(e.t, a.Connect(b.LocalAddr()))
	require.NoError(e.t, b.Connect(a.LocalAddr()))
	return a, b
}

// echo answers what comes to host i with the same bytes.
func (e *ends) echo(i int) (n int) {
	n, err := e.sets[i].Rings()[0].Poll(e.dst)
	if err != nil {
		e.t.Fatal(err)
	}
	for j := range e.dst[:n] {
		c := &e.dst[j]
		if _, err := c.Socket.Send(c.Packet.Bytes()); err != nil {
			e.t.Fatal(err)
		}
		if err := c.Packet.Release(); err != nil {
			e.t.Fatal(err)
		}
	}
	return n
}

// BenchmarkEcho is a datagram to and fro between two rings of one goroutine, a window of 32: per operation two sends and two
// receives with everything between application and link, and the copies of the memory link.
func BenchmarkEcho(b *testing.B) { benchmarkEcho(b) }

// BenchmarkEchoPublished is the same with counters in a statistics file.
func BenchmarkEchoPublished(b *testing.B) {
	p, err := null.NewPublished(b.TempDir() + "/stats")
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, p.Close()) })
	benchmarkEcho(b, func(c *ring.SetConfig) { p.Configure(c, &c.Pool.Pool) })
}

func benchmarkEcho(b *testing.B, change ...func(*ring.SetConfig)) {
	e := newEnds(b, memory.Config{}, change...)
	s, _ := e.connect(ring.Config{LargestDatagram: 2048})
	msg := make([]byte, 64)
	for range 32 {
		if _, err := s.Send(msg); err != nil {
			b.Fatal(err)
		}
	}
	e.echo(0)
	for range 1000 {
		e.echo(1)
		e.echo(0)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; {
		e.echo(1)
		n += e.echo(0)
	}
	b.StopTimer()
	for range 2 { // the buffers in flight return to the pool
		for i := range 2 {
			n, _ := e.sets[i].Rings()[0].Poll(e.dst)
			for j := range e.dst[:n] {
				_ = e.dst[j].Packet.Release()
			}
		}
	}
}

// TestNoAllocation: neither an idle turn nor an echo allocates, SendVector and SendPacket do not.
func TestNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates by itself; the build without it asserts this")
	}
	e := newEnds(t, memory.Config{})
	s, _ := e.connect(ring.Config{LargestDatagram: 2048})
	msg := make([]byte, 64)
	turn := func() {
		if _, err := s.SendVector([][]byte{msg[:8], msg[8:]}, netip.AddrPort{}); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			n, err := e.sets[0].Rings()[0].Poll(e.dst)
			if err != nil {
				t.Fatal(err)
			}
			for i := range e.dst[:n] {
				_ = e.dst[i].Packet.Release()
			}
			e.echo(1)
		}
	}
	packet := func() {
		p, err := e.pools[0].Alloc(64)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SendPacket(p, netip.AddrPort{}, 7); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			n, _ := e.sets[0].Rings()[0].Poll(e.dst)
			for i := range e.dst[:n] {
				_ = e.dst[i].Packet.Release()
			}
			n, _ = e.sets[1].Rings()[0].Poll(e.dst)
			for i := range e.dst[:n] {
				_ = e.dst[i].Packet.Release()
			}
		}
	}
	for range 200 {
		turn()
		packet()
	}
	require.Zero(t, testing.AllocsPerRun(500, turn), "echo")
	require.Zero(t, testing.AllocsPerRun(500, packet), "send packet")
	require.Zero(t, testing.AllocsPerRun(500, func() { e.echo(0) }), "idle")
}

// BenchmarkIdle is a Poll that finds nothing, which is what half a turn's wait of a frame is made of.
func BenchmarkIdle(b *testing.B) {
	e := newEnds(b, memory.Config{})
	e.connect(ring.Config{LargestDatagram: 2048})
	r := e.sets[0].Rings()[0]
	for b.Loop() {
		if n, err := r.Poll(e.dst); n != 0 || err != nil {
			b.Fatal(n, err)
		}
	}
}
