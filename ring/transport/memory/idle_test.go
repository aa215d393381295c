package memory_test

import (
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/ringtest"
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

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// What an idle child may cost: bytes of heap in the core, and the share by which forced collections may move the 99th percentile of an echo
// beside many of them.
const (
	coreBytes  = 150
	collectors = 0.10
)

// TestIdleChildren accepts many connections that stay idle: 20,000, or 1,000,000 with SOCKETXTREME_LONG set. It fails when one costs the core
// more than coreBytes. The long form also fails when collections disturb an echo by more than a tenth more beside them than beside few.
func TestIdleChildren(t *testing.T) {
	n := 20_000
	long := os.Getenv("SOCKETXTREME_LONG") != ""
	if long {
		n = 1_000_000
	}
	w := newIdleWorld(t, n)
	few := w.disturbance(long)
	if !raceEnabled { // the race detector allocates by itself
		require.Zero(t, testing.AllocsPerRun(1000, func() { w.echo() }), "an echo")
		require.Zero(t, testing.AllocsPerRun(1000, w.poll), "a Poll with nothing to do")
		require.Zero(t, testing.AllocsPerRun(1000, func() { _ = w.listener.Ring().Wait(0) }), "a sleep")
	}

	// The connections are made while the listener is suspended: they are the transport's alone until it goes on.
	begin := time.Now()
	before := heap()
	require.NoError(t, w.listener.Suspend())
	first := w.accepted
	w.connect(n - first)
	between := heap()
	require.NoError(t, w.listener.Resume())
	w.accept(n)
	after := heap()
	transport, core := (between-before)/float64(n-first), (after-between)/float64(n-first)
	t.Logf("%d idle children in %v: the core has %.0f bytes of heap for each (ring.Socket %d), the transport %.0f (protocol.Conn %d)", n,
		time.Since(begin).Round(time.Millisecond), core, unsafe.Sizeof(ring.Socket{}), transport, unsafe.Sizeof(protocol.Conn{}))
	if !raceEnabled {
		require.LessOrEqual(t, core, float64(coreBytes), "bytes of heap for an idle child in the core")
	}

	many := w.disturbance(long)
	t.Logf("forced collections every %v move p99 by %+.0f %% beside %d children, by %+.0f %% beside %d", ringtest.CollectEach, 100*(many-1), n, 100*(few-1), first)
	if long {
		require.LessOrEqual(t, many, max(1, few)+collectors, "what collections do to p99")
	}

	require.Equal(t, n+1, w.listener.Ring().Sockets())
	begin = time.Now()
	require.NoError(t, w.set.Close())
	t.Logf("closed in %v", time.Since(begin).Round(time.Millisecond))
	require.Zero(t, w.host.Protocol().Len())
	ledger := w.pool.Ledger()
	require.Equal(t, ledger.Total, ledger.Free)
}

// Connections that have spoken are compact again when the application has released what they brought.
func TestChildrenThatSpokeAreCompactAgain(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector: it allocates by itself")
	}
	const n = 5000
	w := newIdleWorld(t, n)
	first := w.accepted
	before := heap()
	w.connect(n - first)
	w.accept(n)
	idle := (heap() - before) / float64(n-first)
	for i := range n {
		w.peer, _ = protocol.EndpointFrom(w.children[i].RemoteAddr())
		w.seq, w.ack = w.x.next(w.peer), w.host.Protocol().Unacknowledged(connOf(w.host, w.peer, w.x.server))
		w.echo()
		w.acknowledge()
	}
	spoke := (heap() - before) / float64(n-first)
	t.Logf("an idle child: %.0f bytes of heap; one that has spoken: %.0f", idle, spoke)
	require.Less(t, spoke, idle+40, "only those that spoke last have an account")
	require.NoError(t, w.set.Close())
}

// idleWorld is a listener, its children, and a peer of one of them.
type idleWorld struct {
	t        testing.TB
	x        *swarm
	host     *memory.Host
	set      *ring.Set
	pool     *buffers.DriverPool
	listener *ring.Socket
	dst      []ring.Completion
	children []*ring.Socket // only of small worlds
	accepted int
	sent     int // SYNs

	peer     protocol.Endpoint // of the echo
	seq, ack protocol.Seq
	payload  []byte
}

func newIdleWorld(t testing.TB, n int) *idleWorld {
	network := memory.NewNetwork(1)
	link, err := network.NewLink(memory.LinkConfig{Addrs: ringAddrs})
	require.NoError(t, err)
	w := &idleWorld{t: t, x: &swarm{t: t}, dst: make([]ring.Completion, 256), payload: []byte("0123456789abcdef")}
	if n <= 10_000 {
		w.children = make([]*ring.Socket, 0, n)
	}
	var addrs []netip.Addr
	for i := range n/portsEach + 1 {
		addrs = append(addrs, netip.AddrFrom4([4]byte{10, 8, 0, byte(1 + i)}))
	}
	w.x.link, err = network.NewLink(memory.LinkConfig{Addrs: addrs})
	require.NoError(t, err)
	w.host, err = memory.New(memory.Config{Link: link, Seed: 1})
	require.NoError(t, err)
	layout := buffers.Layout{SmallSize: 2048, SmallCount: 512, LargeSize: 65536, LargeCount: 8, Headroom: 192}
	w.pool, err = buffers.New(make([]byte, layout.Bytes()), layout)
	require.NoError(t, err)
	w.set, err = ring.NewSet(ring.SetConfig{Kind: "memory", Pool: w.pool, Transport: w.host, Driver: w.host.Driver, OneRing: memory.OneRing})
	require.NoError(t, err)
	w.listener, err = w.set.NewSocket(ring.KindStream, ring.IPv4, ring.Config{})
	require.NoError(t, err)
	require.NoError(t, w.listener.Bind(netip.AddrPortFrom(ringAddrs[0], 80)))
	require.NoError(t, w.listener.Listen(n))
	w.x.server = protocol.Endpoint{Addr: ringAddrs[0].As4(), Port: 80}
	w.poll()
	w.connect(1)
	w.accept(1)
	w.peer = w.x.client(0)
	w.seq, w.ack = 1, w.host.Protocol().Unacknowledged(connOf(w.host, w.peer, w.x.server))
	// As large as they are going to be: what was made for the first of many is not counted to them.
	for range 1100 {
		w.acknowledge()
	}
	w.connect(600)
	w.accept(601)
	return w
}

// acknowledge takes the last echo.
func (w *idleWorld) acknowledge() {
	w.x.link.Transmit(clock.Now(), &protocol.Segment{Source: w.peer, Target: w.x.server, Flags: protocol.ACK, Seq: w.seq, Ack: w.ack,
		Window: 1 << 16}, nil, 0)
	w.poll()
	w.x.answer()
}

// poll echoes what came.
func (w *idleWorld) poll() {
	k, err := w.listener.Ring().Poll(w.dst)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range w.dst[:k] {
		c := &w.dst[i]
		if c.Events.Has(ring.EventNewConnection) {
			w.accepted++
			if len(w.children) < cap(w.children) {
				w.children = append(w.children, c.Socket)
			}
		}
		if c.Events.Has(ring.EventPacket) {
			_, _ = c.Socket.Send(c.Packet.Bytes())
			_ = c.Packet.Release()
		}
	}
}

// connect makes n more connections.
func (w *idleWorld) connect(n int) {
	begin := time.Now()
	for end := w.sent + n; w.sent < end || w.host.Protocol().Len() < end; {
		for range 256 {
			if w.sent < end {
				w.x.syn(w.sent)
				w.sent++
			}
		}
		w.poll()
		w.x.answer()
		w.poll()
		require.Less(w.t, time.Since(begin), 10*time.Minute, "%d of %d", w.sent, end)
	}
}

// accept polls until n connections were accepted.
func (w *idleWorld) accept(n int) {
	for begin := time.Now(); w.accepted < n; {
		w.poll()
		w.x.answer()
		require.Less(w.t, time.Since(begin), 10*time.Minute, "%d of %d", w.accepted, n)
	}
	w.poll() // the application has had its turn with the last ones
}

// echo is one round trip of the peer.
func (w *idleWorld) echo() time.Duration {
	start := time.Now()
	s := protocol.Segment{Source: w.peer, Target: w.x.server, Flags: protocol.ACK, Seq: w.seq, Ack: w.ack, Window: 1 << 16,
		Length: uint16(len(w.payload))}
	w.x.link.Transmit(clock.Now(), &s, w.payload, 0)
	w.seq = w.seq.Add(len(w.payload))
	for want := w.x.got + len(w.payload); w.x.got < want; {
		w.poll()
		w.x.answerEcho(&w.ack)
		if time.Since(start) > 10*time.Second {
			w.t.Fatal("no echo")
		}
	}
	return time.Since(start)
}

// disturbance is what forced collections do to the echo.
func (w *idleWorld) disturbance(long bool) float64 {
	return ringtest.Disturbance(w.t, long, fmt.Sprintf("%d children", w.accepted), w.echo)
}

// next is the sequence number that a client's first data has.
func (x *swarm) next(peer protocol.Endpoint) protocol.Seq {
	return protocol.Seq(int(peer.Addr[3]-1)*portsEach+int(peer.Port)-1000) + 1
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
