package memory_test

import (
	"net/netip"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/memory"
	"github.com/socketxtreme/socketxtreme/ring/transport/memory/protocol"
)

// swarm is clients that remember nothing: a SYN for each, and an answer to what comes back.
type swarm struct {
	t      testing.TB
	link   *memory.Link
	server protocol.Endpoint
	got    int // bytes of data that came
}

const portsEach = 60_000

func (x *swarm) client(i int) protocol.Endpoint {
	return protocol.Endpoint{Addr: [4]byte{10, 8, 0, byte(1 + i/portsEach)}, Port: uint16(1000 + i%portsEach)}
}

func (x *swarm) syn(i int) {
	s := protocol.Segment{Source: x.client(i), Target: x.server, Flags: protocol.SYN, Seq: protocol.Seq(i), Window: 1 << 16}
	if !x.link.Transmit(clock.Now(), &s, nil, 0) {
		x.t.Fatal("the link is full")
	}
}

// answer acknowledges what came.
func (x *swarm) answer() {
	for {
		for {
			if _, ok := x.link.Completed(); !ok {
				break
			}
		}
		frame, ok := x.link.Receive(clock.Now())
		if !ok {
			return
		}
		s, _, _ := protocol.Parse(frame)
		x.link.Release()
		x.got += int(s.Length)
		n := int(s.Length)
		if s.Flags&protocol.SYN != 0 {
			n++
		}
		if n > 0 && s.Flags&protocol.RST == 0 {
			r := protocol.Segment{Source: s.Target, Target: s.Source, Flags: protocol.ACK, Seq: s.Ack, Ack: s.Seq.Add(n), Window: 1 << 16}
			x.link.Transmit(clock.Now(), &r, nil, 0)
		}
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestIdleChildren accepts many connections that stay idle, and reports what each costs and what garbage collections cost an echo beside
// them: 20,000, or 1,000,000 with SOCKETXTREME_LONG set.
func TestIdleChildren(t *testing.T) {
	n := 20_000
	if os.Getenv("SOCKETXTREME_LONG") != "" {
		n = 1_000_000
	}
	network := memory.NewNetwork(1)
	link, err := network.NewLink(memory.LinkConfig{Addrs: ringAddrs})
	require.NoError(t, err)
	x := &swarm{t: t}
	var addrs []netip.Addr
	for i := range n/portsEach + 1 {
		addrs = append(addrs, netip.AddrFrom4([4]byte{10, 8, 0, byte(1 + i)}))
	}
	x.link, err = network.NewLink(memory.LinkConfig{Addrs: addrs})
	require.NoError(t, err)
	host, err := memory.New(memory.Config{Link: link, Seed: 1})
	require.NoError(t, err)
	layout := buffers.Layout{SmallSize: 2048, SmallCount: 512, LargeSize: 65536, LargeCount: 8, Headroom: 192}
	pool, err := buffers.New(make([]byte, layout.Bytes()), layout)
	require.NoError(t, err)
	set, err := ring.NewSet(ring.SetConfig{Kind: "memory", Pool: pool, Transport: host, Driver: host.Driver, OneRing: memory.OneRing})
	require.NoError(t, err)
	l, err := set.NewSocket(ring.KindStream, false, ring.Config{})
	require.NoError(t, err)
	require.NoError(t, l.Bind(netip.AddrPortFrom(ringAddrs[0], 80)))
	require.NoError(t, l.Listen(0))
	x.server = protocol.Endpoint{Addr: ringAddrs[0].As4(), Port: 80}
	dst := make([]ring.Completion, 256)
	accepted := 0
	var last *ring.Socket
	poll := func() {
		k, err := l.Ring().Poll(dst)
		if err != nil {
			t.Fatal(err)
		}
		for i := range dst[:k] {
			c := &dst[i]
			if c.Events.Has(ring.EventNewConnection) {
				accepted++
				last = c.Socket
			}
			if c.Events.Has(ring.EventPacket) { // the echo
				_, _ = c.Socket.Send(c.Packet.Bytes())
				_ = c.Packet.Release()
			}
		}
	}
	poll()
	before := heap()
	begin := time.Now()
	for i := 0; i < n || accepted < n; {
		for range 256 {
			if i < n {
				x.syn(i)
				i++
			}
		}
		poll()
		x.answer()
		poll()
		require.Less(t, time.Since(begin), 10*time.Minute, "%d of %d", accepted, n)
	}
	took := time.Since(begin)
	grown := float64(heap()-before) / float64(n)
	socket := float64(unsafe.Sizeof(ring.Socket{}))
	conn := float64(unsafe.Sizeof(protocol.Conn{}))
	t.Logf("%d idle children in %v: %.0f bytes of heap each (ring.Socket %.0f, protocol.Conn %.0f)", n, took.Round(time.Millisecond), grown,
		socket, conn)

	// An echo beside them: its round trips, without and with forced collections.
	seq, ack := protocol.Seq(0), protocol.Seq(0)
	peer, _ := protocol.EndpointFrom(last.RemoteAddr())
	for i := range n {
		if x.client(i) == peer {
			seq = protocol.Seq(i) + 1
		}
	}
	payload := []byte("0123456789abcdef")
	echo := func() time.Duration {
		start := time.Now()
		s := protocol.Segment{Source: peer, Target: x.server, Flags: protocol.ACK, Seq: seq, Ack: ack, Window: 1 << 16,
			Length: uint16(len(payload))}
		x.link.Transmit(clock.Now(), &s, payload, 0)
		seq = seq.Add(len(payload))
		for want := x.got + len(payload); x.got < want; {
			poll()
			x.answerEcho(&ack)
			if time.Since(start) > 10*time.Second {
				t.Fatal("no echo")
			}
		}
		return time.Since(start)
	}
	ack = host.Protocol().Unacknowledged(connOf(host, peer, x.server))
	measure := func(d time.Duration) (p50, p99, worst time.Duration) {
		var all []time.Duration
		for end := time.Now().Add(d); time.Now().Before(end); {
			all = append(all, echo())
		}
		slices.Sort(all)
		return all[len(all)/2], all[len(all)*99/100], all[len(all)-1]
	}
	measure(200 * time.Millisecond)
	if !raceEnabled { // the race detector allocates by itself
		require.Zero(t, testing.AllocsPerRun(1000, func() { echo() }), "an echo")
		require.Zero(t, testing.AllocsPerRun(1000, poll), "a Poll with nothing to do")
		require.Zero(t, testing.AllocsPerRun(1000, func() { _ = l.Ring().Wait(0) }), "a sleep")
	}
	length := time.Second
	if n > 100_000 {
		length = 5 * time.Second
	}
	p50, p99, worst := measure(length)
	t.Logf("echo beside them: p50 %v, p99 %v, worst %v", p50, p99, worst)
	stop, stopped := make(chan struct{}), make(chan int)
	go func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for k := 0; ; k++ {
			select {
			case <-stop:
				stopped <- k
				return
			case <-tick.C:
				runtime.GC()
			}
		}
	}()
	p50, p99gc, worst := measure(length)
	close(stop)
	collections := <-stopped
	t.Logf("with %d forced collections in %v: p50 %v, p99 %v (%+.0f %%), worst %v", collections, length, p50, p99gc,
		100*(float64(p99gc)/float64(p99)-1), worst)

	require.Equal(t, n+1, l.Ring().Sockets())
	begin = time.Now()
	require.NoError(t, set.Close())
	t.Logf("closed in %v", time.Since(begin).Round(time.Millisecond))
	require.Zero(t, host.Protocol().Len())
	ledger := pool.Ledger()
	require.Equal(t, ledger.Total, ledger.Free)
}

// answerEcho takes what came for the echo's client, and its acknowledgement for the next segment.
func (x *swarm) answerEcho(ack *protocol.Seq) {
	for {
		for {
			if _, ok := x.link.Completed(); !ok {
				break
			}
		}
		frame, ok := x.link.Receive(clock.Now())
		if !ok {
			return
		}
		s, _, _ := protocol.Parse(frame)
		x.link.Release()
		if s.Length > 0 {
			x.got += int(s.Length)
			*ack = s.Seq.Add(int(s.Length))
		}
	}
}

// connOf finds a connection of the host by its endpoints.
func connOf(h *memory.Host, remote, local protocol.Endpoint) protocol.ID {
	for id := range protocol.ID(h.Protocol().Len()) {
		if h.Protocol().Remote(id) == remote && h.Protocol().Local(id) == local {
			return id
		}
	}
	return protocol.NoID
}
