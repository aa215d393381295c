package extraapi_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/epoll"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
	"github.com/socketxtreme/socketxtreme/ring/uring"
)

// patience is how long a test waits for what must happen.
var patience = testnet.Slow(20 * time.Second)

// The kinds of ring that a case runs on: all carry datagrams, the kernel's carry streams as well.
var (
	everyKind   = []string{"uring", "epoll", "offload"}
	kernelKinds = []string{"uring", "epoll"}
)

// onEach runs a test on each kind of ring; the skip of one that does not work here says why.
func onEach(t *testing.T, kinds []string, test func(w *world)) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) { test(newWorld(t, kind)) })
	}
}

// world is the rings of one poller, polled by the test's goroutine, and what they delivered and nobody has asked for yet. Peers are the
// kernel's sockets on loopback; of the offloaded world, sockets of a second ring at the other end of a memory link, polled along.
type world struct {
	*require.Assertions
	t     testing.TB
	kind  string
	set   *ring.Set
	pool  *buffers.DriverPool
	local netip.AddrPort // ours; port 0 is chosen
	kept  []ring.Completion
	dst   []ring.Completion

	far     *ring.Set // of the offloaded world
	facts   *offload.MemoryHost
	farKept []ring.Completion
	frames  int    // that our end put on the wire
	last    []byte // of them
}

var defaultLayout = buffers.Layout{SmallSize: 2048, SmallCount: 1024, LargeSize: 65536, LargeCount: 48, Headroom: 192}

func newWorld(t testing.TB, kind string) *world { return newWorldOn(t, kind, defaultLayout) }

// newWorldOn makes a world; at its end every buffer must be back in the pool.
func newWorldOn(t testing.TB, kind string, layout buffers.Layout) *world {
	t.Helper()
	t.Attr("ring", kind)
	w := &world{Assertions: require.New(t), t: t, kind: kind, local: netip.MustParseAddrPort("127.0.0.1:0"),
		dst: make([]ring.Completion, 64)}
	w.pool = newPool(t, layout)
	c := ring.SetConfig{Transport: kernel.New(), Pool: w.pool, Kind: kind}
	switch kind {
	case "uring":
		if err := uring.Probe(); errors.Is(err, ring.ErrNotSupported) {
			testnet.Missing(t, "uring", err)
		}
		c.Driver = uring.New
	case "epoll":
		c.Driver = epoll.New
	case "offload":
		w.plug(&c)
	}
	var err error
	w.set, err = ring.NewSet(c)
	w.NoError(err)
	t.Cleanup(func() {
		for _, list := range [][]ring.Completion{w.kept, w.farKept} {
			for i := range list {
				_ = list[i].Packet.Release()
			}
		}
		require.NoError(t, w.set.Close())
		if w.far != nil {
			require.NoError(t, w.far.Close())
		}
	})
	return w
}

func newPool(t testing.TB, l buffers.Layout) *buffers.DriverPool {
	t.Helper()
	region, err := sys.NewRegion(sys.RegionConfig{Bytes: l.Bytes()})
	require.NoError(t, err)
	pool, err := buffers.New(region.Bytes(), l)
	require.NoError(t, err)
	t.Cleanup(func() {
		pool.Reclaim()
		ledger := pool.Ledger()
		require.Equal(t, ledger.Total, ledger.Free, "%v", ledger)
		require.NoError(t, pool.Verify())
		require.NoError(t, region.Close())
	})
	return pool
}

// The two hosts of the offloaded world.
const (
	linkIndex = 7
	linkMTU   = 65535
)

var (
	macs  = [2][6]byte{{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}}
	hosts = [2]netip.Prefix{netip.MustParsePrefix("10.9.0.1/24"), netip.MustParsePrefix("10.9.0.2/24")}
)

// facts are those of one end, with or without knowing its neighbour.
func facts(end int, neighbour bool) host.Facts {
	f := offload.Facts(host.Link{Index: linkIndex, Name: "mem0", Type: unix.ARPHRD_ETHER, MAC: macs[end], MTU: linkMTU,
		Flags: unix.IFF_UP | unix.IFF_LOWER_UP | unix.IFF_BROADCAST | unix.IFF_MULTICAST}, hosts[end])
	if neighbour {
		f.Neighbours = []host.Neighbour{{Target: host.Target{Interface: linkIndex, Addr: hosts[1-end].Addr()},
			MAC: wire.MAC(macs[1-end]), State: unix.NUD_PERMANENT}}
	}
	return f
}

// plug joins a memory link to c and to a second host.
func (w *world) plug(c *ring.SetConfig) {
	w.local = netip.AddrPortFrom(hosts[0].Addr(), 0)
	others := newPool(w.t, buffers.Layout{SmallSize: 2048, SmallCount: 512, LargeSize: 65536, LargeCount: 32, Headroom: 192})
	count := func(frame []byte) ([]byte, int) { w.frames++; w.last = append(w.last[:0], frame...); return frame, 1 }
	ours, theirs, err := memory.Pair(w.pool, others, memory.Config{Names: [2]string{"mem0", "mem1"}, Addrs: macs, MTU: linkMTU, Slots: 512,
		Faults: [2]memory.Fault{count, nil}})
	w.NoError(err)
	w.facts = w.host(0, ours, c)
	far := ring.SetConfig{Transport: kernel.New(), Pool: others}
	w.host(1, theirs, &far)
	w.far, err = ring.NewSet(far)
	w.NoError(err)
	_, err = w.far.NewRing()
	w.NoError(err)
}

// host configures a set on one end of the link.
func (w *world) host(end int, l *memory.End, c *ring.SetConfig) *offload.MemoryHost {
	ns, err := offload.NewMemoryHost(facts(end, true), rand.Uint64)
	w.NoError(err)
	c.Kind, c.Transport, c.OneRing = "offload", ns, offload.OneRing
	x, err := offload.NewExchange(offload.ExchangeConfig{MemoryHost: ns, Open: nic.OpenLinks(ns, map[string]link.Staged{"mem0": l})})
	w.NoError(err)
	w.t.Cleanup(func() { w.NoError(x.Close()) })
	c.Driver = offload.New(offload.Config{Exchange: x, Interfaces: []nic.Interface{{Name: "mem0"}}})
	return ns
}

// poll polls every ring once and keeps what came.
func (w *world) poll() (n int) {
	w.t.Helper()
	for _, r := range w.set.Rings() {
		k, err := r.Poll(w.dst)
		w.NoError(err)
		w.kept = append(w.kept, w.dst[:k]...)
		n += k
	}
	return n + w.pollFar()
}

func (w *world) pollFar() int {
	if w.far == nil {
		return 0
	}
	k, err := w.far.Rings()[0].Poll(w.dst)
	w.NoError(err)
	w.farKept = append(w.farKept, w.dst[:k]...)
	return k
}

// until polls until the condition holds.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !holds(); {
		w.True(time.Now().Before(end), "waiting for %s; there is %s", what, w.list())
		if w.poll() == 0 {
			time.Sleep(10 * time.Microsecond)
		}
	}
}

// next polls until a completion matches, and takes it.
func (w *world) next(what string, match func(*ring.Completion) bool) (found ring.Completion) {
	w.t.Helper()
	w.until(what, func() bool {
		for i := range w.kept {
			if match(&w.kept[i]) {
				found = w.kept[i]
				w.kept = append(w.kept[:i:i], w.kept[i+1:]...)
				return true
			}
		}
		return false
	})
	return found
}

// of takes the next completion of s.
func (w *world) of(s *ring.Socket) ring.Completion {
	w.t.Helper()
	return w.next(fmt.Sprintf("something of socket %d", s.ID()), func(c *ring.Completion) bool { return c.Socket == s })
}

// event takes the next completion of s, which must have exactly these events.
func (w *world) event(s *ring.Socket, e ring.Event) ring.Completion {
	w.t.Helper()
	c := w.of(s)
	w.Equal(e.String(), c.Events.String(), "err %v", c.Err)
	return c
}

// accept takes the next new connection of l.
func (w *world) accept(l *ring.Socket) ring.Completion {
	w.t.Helper()
	return w.next("a new connection", func(c *ring.Completion) bool {
		return c.Events.Has(ring.EventNewConnection) && c.Listener == l
	})
}

// silent polls for a while, during which nothing may come.
func (w *world) silent(d time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		w.poll()
		w.Empty(w.list())
	}
}

func (w *world) list() (s string) {
	for i := range w.kept {
		c := &w.kept[i]
		s += fmt.Sprintf("[socket %d %v %d bytes err %v] ", c.Socket.ID(), c.Events, c.Packet.Len(), c.Err)
	}
	return s
}

// socket makes a socket without a ring.
func (w *world) socket(kind ring.SocketKind) *ring.Socket {
	w.t.Helper()
	s, err := w.set.NewSocket(kind, ring.IPv4, ring.Config{})
	w.NoError(err)
	w.t.Cleanup(func() {
		if s.Ring() == nil { // the set knows its rings' sockets only
			_ = s.Close()
		}
	})
	return s
}

// udp makes a bound UDP socket.
func (w *world) udp(before ...func(*ring.Socket)) *ring.Socket {
	w.t.Helper()
	s := w.socket(ring.KindDatagram)
	for _, f := range before {
		f(s)
	}
	w.NoError(s.Bind(w.local))
	return s
}

// listen makes a TCP listener.
func (w *world) listen(before ...func(*ring.Socket)) *ring.Socket {
	w.t.Helper()
	s := w.socket(ring.KindStream)
	for _, f := range before {
		f(s)
	}
	w.NoError(s.Bind(w.local))
	w.NoError(s.Listen(16))
	return s
}

// dial makes a kernel client of a listener.
func (w *world) dial(l *ring.Socket) *net.TCPConn {
	w.t.Helper()
	c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(l.LocalAddr()))
	w.NoError(err)
	w.NoError(c.SetDeadline(time.Now().Add(3 * patience)))
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// pair is an accepted connection and its kernel client.
func (w *world) pair(l *ring.Socket) (*ring.Socket, *net.TCPConn) {
	w.t.Helper()
	peer := w.dial(l)
	return w.accept(l).Socket, peer
}

// server is a kernel listener.
func (w *world) server() *net.TCPListener {
	w.t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	w.NoError(err)
	w.NoError(l.SetDeadline(time.Now().Add(3 * patience)))
	w.t.Cleanup(func() { _ = l.Close() })
	return l
}

// freePort is an address on which nobody listens.
func (w *world) freePort() netip.AddrPort {
	w.t.Helper()
	l := w.server()
	a := l.Addr().(*net.TCPAddr).AddrPort()
	w.NoError(l.Close())
	return a
}

// text takes the next packet of s, releases it and returns what was in it.
func (w *world) text(s *ring.Socket) string {
	w.t.Helper()
	c := w.event(s, ring.EventPacket)
	defer func() { w.NoError(c.Packet.Release()) }()
	b := make([]byte, c.Packet.Len())
	c.Packet.CopyTo(b)
	return string(b)
}

// closed closes a socket and waits for its last completion.
func (w *world) closed(s *ring.Socket) {
	w.t.Helper()
	w.NoError(s.Close())
	w.event(s, ring.EventClosed)
}

// longTest is SOCKETXTREME_LONG, or what is given here for short.
func longTest(t testing.TB, short time.Duration) (d time.Duration, long bool) {
	text := os.Getenv("SOCKETXTREME_LONG")
	if text == "" {
		return short, false
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err, "SOCKETXTREME_LONG=%s", text)
	require.GreaterOrEqual(t, d, 100*time.Millisecond, "SOCKETXTREME_LONG")
	return d, true
}
