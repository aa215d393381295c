package xtreme_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

var (
	loopback  = netip.MustParseAddrPort("127.0.0.1:0")
	loopback6 = netip.MustParseAddrPort("[::1]:0")
)

// patience is how long a test waits for what must happen.
var patience = testnet.Slow(20 * time.Second)

// onEach runs a test on every kind of ring that works here; the skip of one that does not says why.
func onEach(t *testing.T, test func(t *testing.T, kind conf.RingKind)) {
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll} {
		t.Run(string(kind), func(t *testing.T) {
			needKind(t, kind)
			test(t, kind)
		})
	}
}

// onEveryKind is onEach with pollers of kind offload too, for what concerns the poller.
func onEveryKind(t *testing.T, test func(t *testing.T, kind conf.RingKind)) {
	onEach(t, test)
	t.Run(string(conf.RingOffload), func(t *testing.T) { test(t, conf.RingOffload) })
}

func needKind(t *testing.T, kind conf.RingKind) {
	t.Helper()
	err := newEngine(t, kind).Start()
	if errors.Is(err, ring.ErrNotSupported) {
		testnet.Missing(t, string(kind), err)
	}
	require.NoError(t, err)
}

// newEngine makes an engine with small pollers. At the end of the test every poller must have been closed.
func newEngine(t testing.TB, kind conf.RingKind) *xtreme.Engine {
	t.Helper()
	s := conf.Default()
	s.Ring, s.SmallBuffers, s.LargeBuffers = kind, 512, 16
	e, err := xtreme.New(s)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// world is a poller polled by the test's goroutine, and what it delivered and nobody has asked for yet.
type world struct {
	*require.Assertions
	t      *testing.T
	engine *xtreme.Engine
	poller *xtreme.Poller
	room   int // length of the slice given to Poll
	kept   []xtreme.Completion
	dst    []xtreme.Completion

	beforePoll func() // polls another poller of the same goroutine; nil: there is none
}

// newWorld makes a poller; at the end of the test it is closed, and every buffer must be back in the pool.
func newWorld(t *testing.T, kind conf.RingKind, c ...xtreme.PollerConfig) *world {
	t.Helper()
	w := &world{Assertions: require.New(t), t: t, engine: newEngine(t, kind), room: 64}
	var err error
	w.t.Attr("ring", string(kind))
	w.poller, err = w.engine.NewPoller("test", orZero(c))
	w.NoError(err)
	t.Cleanup(func() {
		for i := range w.kept {
			_ = w.kept[i].Packet.Release()
		}
		require.NoError(t, w.poller.Close())
	})
	return w
}

// poll polls once and keeps what came.
func (w *world) poll() int {
	w.t.Helper()
	if len(w.dst) != w.room {
		w.dst = make([]xtreme.Completion, w.room)
	}
	if w.beforePoll != nil {
		w.beforePoll()
	}
	n, err := w.poller.Poll(w.dst)
	w.NoError(err)
	w.kept = append(w.kept, w.dst[:n]...)
	return n
}

// next polls until a completion matches, and takes it.
func (w *world) next(what string, match func(*xtreme.Completion) bool) xtreme.Completion {
	w.t.Helper()
	for end := time.Now().Add(patience); ; {
		for i := range w.kept {
			if c := w.kept[i]; match(&c) {
				w.kept = append(w.kept[:i:i], w.kept[i+1:]...)
				return c
			}
		}
		w.True(time.Now().Before(end), "waiting for %s; there is %s", what, w.list())
		if w.poll() == 0 {
			time.Sleep(10 * time.Microsecond)
		}
	}
}

// event takes the next completion of s, which must have exactly these events.
func (w *world) event(s *xtreme.Socket, e xtreme.Event) xtreme.Completion {
	w.t.Helper()
	c := w.next(fmt.Sprintf("%v of socket %d", e, s.ID()), func(c *xtreme.Completion) bool { return c.Socket == s })
	w.Equal(e.String(), c.Events.String(), "err %v", c.Err)
	return c
}

// accept takes the next new connection of l.
func (w *world) accept(l *xtreme.Socket) *xtreme.Socket {
	w.t.Helper()
	return w.next("a new connection", func(c *xtreme.Completion) bool {
		return c.Events.Has(xtreme.EventNewConnection) && c.Listener == l
	}).Socket
}

// text takes the next packet of s, releases it and returns what was in it.
func (w *world) text(s *xtreme.Socket) string {
	w.t.Helper()
	c := w.event(s, xtreme.EventPacket)
	defer func() { w.NoError(c.Packet.Release()) }()
	return string(c.Packet.Bytes())
}

// until polls until the condition holds.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !holds(); {
		w.True(time.Now().Before(end), "waiting until %s; there is %s", what, w.list())
		if w.poll() == 0 {
			time.Sleep(10 * time.Microsecond)
		}
	}
}

// silent polls for a while, during which nothing may come.
func (w *world) silent(d time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		w.poll()
		w.Empty(w.list())
	}
}

// close closes the socket and waits for its last completion.
func (w *world) close(s *xtreme.Socket) {
	w.t.Helper()
	if w.NoError(s.Close()); s.Ring() == nil {
		return // no ring, no completion
	}
	c := w.next("CLOSED", func(c *xtreme.Completion) bool { return c.Socket == s && c.Events.Has(xtreme.EventClosed) })
	w.Equal(xtreme.EventClosed, c.Events)
}

func (w *world) list() string {
	s := ""
	for i := range w.kept {
		c := &w.kept[i]
		s += fmt.Sprintf("[socket %d %v %d bytes err %v] ", c.Socket.ID(), c.Events, c.Packet.Len(), c.Err)
	}
	return s
}

func (w *world) listen(c ...xtreme.ListenConfig) *xtreme.Socket {
	w.t.Helper()
	s, err := w.poller.ListenTCP(loopback, orZero(c))
	w.NoError(err)
	return s
}

func (w *world) udp(a netip.AddrPort, c ...xtreme.UDPConfig) *xtreme.Socket {
	w.t.Helper()
	s, err := w.poller.OpenUDP(a, orZero(c))
	w.NoError(err)
	return s
}

// dial connects a kernel client to a.
func (w *world) dial(a netip.AddrPort) *net.TCPConn {
	w.t.Helper()
	c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(a))
	w.NoError(err)
	w.NoError(c.SetDeadline(time.Now().Add(3 * patience))) // no test may hang
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// pair is an accepted connection of l and its kernel peer.
func (w *world) pair(l *xtreme.Socket) (*xtreme.Socket, *net.TCPConn) {
	w.t.Helper()
	peer := w.dial(l.LocalAddr())
	return w.accept(l), peer
}

// server is a kernel listener.
func (w *world) server(network, address string) *net.TCPListener {
	w.t.Helper()
	l, err := net.Listen(network, address)
	w.NoError(err)
	w.t.Cleanup(func() { _ = l.Close() })
	w.NoError(l.(*net.TCPListener).SetDeadline(time.Now().Add(3 * patience)))
	return l.(*net.TCPListener)
}

// peer is a kernel UDP socket connected to a.
func (w *world) peer(a netip.AddrPort) *net.UDPConn {
	w.t.Helper()
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(a))
	w.NoError(err)
	w.NoError(c.SetDeadline(time.Now().Add(3 * patience)))
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (w *world) write(c net.Conn, b string) {
	w.t.Helper()
	_, err := c.Write([]byte(b))
	w.NoError(err)
}

// sockopt reads a socket option from the kernel.
func (w *world) sockopt(s *xtreme.Socket, level, option int) int {
	w.t.Helper()
	v, err := unix.GetsockoptInt(s.ID(), level, option)
	w.NoError(err)
	return v
}

// orZero is the one configuration that a helper was given, or the zero one.
func orZero[T any](c []T) (one T) {
	if len(c) > 0 {
		one = c[0]
	}
	return one
}

func addr(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.AddrPort()
	case *net.UDPAddr:
		return a.AddrPort()
	}
	return netip.AddrPort{}
}

// descriptors counts what the process has open.
func descriptors(t *testing.T) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, e := range entries {
		// Files of /proc are of the statistics: a goroutine and polling threads open some now and then. One that is closed by now was no more.
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.HasPrefix(to, "/proc/") {
			n++
		}
	}
	return n
}

// codes are the reason codes of a path, without what only tests with the race detector have.
func codes(p xtreme.Path) (list []string) {
	for _, r := range p.Reasons {
		if r.Code != "region.race_heap" {
			list = append(list, r.Code)
		}
	}
	return list
}
