package reactor

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

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

// onEveryKind is onEach with pollers of kind offload too: a loop does not depend on the kind.
func onEveryKind(t *testing.T, test func(t *testing.T, kind conf.RingKind)) {
	onEach(t, test)
	t.Run(string(conf.RingOffload), func(t *testing.T) { test(t, conf.RingOffload) })
}

func needKind(t *testing.T, kind conf.RingKind) {
	t.Helper()
	s := conf.Default()
	s.Ring = kind
	e, err := xtreme.New(s)
	require.NoError(t, err)
	err = e.Start()
	if errors.Is(err, ring.ErrNotSupported) {
		testnet.Missing(t, string(kind), err)
	}
	require.NoError(t, err)
	require.NoError(t, e.Close())
}

func newEngine(t *testing.T, kind conf.RingKind) *xtreme.Engine {
	t.Helper()
	s := conf.Default()
	s.Ring, s.SmallBuffers, s.LargeBuffers = kind, 1024, 64
	return mustEngine(t, s)
}

func quietLog() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// running is a loop on its own goroutine.
type running struct {
	*Loop
	poller *xtreme.Poller
	result chan error
	ended  bool
	err    error
}

// launch makes a loop, lets set prepare it, and runs it until the test ends, when it must shut down with the ledger
// balanced.
func launch(t *testing.T, kind conf.RingKind, h Handler, c Config, set func(*Loop)) *running {
	t.Helper()
	if c.Logger == nil {
		c.Logger = quietLog()
	}
	p, err := newEngine(t, kind).NewPoller("test", xtreme.PollerConfig{})
	require.NoError(t, err)
	l, err := New(p, h, c)
	require.NoError(t, err)
	if set != nil {
		set(l)
	}
	r := &running{Loop: l, poller: p, result: make(chan error, 1)}
	go func() { r.result <- l.Run(context.Background()) }()
	t.Cleanup(func() {
		if !r.ended {
			require.NoError(t, r.stop(t))
		}
	})
	return r
}

// stop shuts the loop down and returns what Run returned.
func (r *running) stop(t *testing.T) error {
	t.Helper()
	r.BeginShutdown()
	return r.wait(t)
}

func (r *running) wait(t *testing.T) error {
	t.Helper()
	if r.ended {
		return r.err
	}
	select {
	case r.err = <-r.result:
		r.ended = true
	case <-time.After(patience):
		require.FailNow(t, "the loop did not end")
	}
	return r.err
}

// do runs f on the loop and waits for it.
func (r *running) do(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	require.NoError(t, r.Post(func() { f(); close(done) }))
	wait(t, done)
}

func (r *running) snapshot(t *testing.T) Stats {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := r.Snapshot(ctx)
	require.NoError(t, err)
	return s
}

func wait[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		require.FailNow(t, "nothing came")
	}
	return v
}

// nothing is a handler that only gives back what it gets.
var nothing = HandlerFunc(func(_ *Loop, c *xtreme.Completion) { release(c) })

// echo answers TCP and UDP with what it got, to the last byte: what a slow peer does not take waits in backlog, and
// meanwhile nothing more is read from it.
type echo struct {
	backlog  map[*xtreme.Socket][]byte
	finished map[*xtreme.Socket]bool
	stopped  bool
	seen     func(l *Loop, c *xtreme.Completion)
}

func newEcho() *echo {
	return &echo{backlog: map[*xtreme.Socket][]byte{}, finished: map[*xtreme.Socket]bool{}}
}

func (e *echo) Stop(*Loop) { e.stopped = true }

func (e *echo) Handle(l *Loop, c *xtreme.Completion) {
	if e.seen != nil {
		e.seen(l, c)
	}
	s := c.Socket
	if c.Events.Has(xtreme.EventPacket) {
		if s.Kind() == ring.KindDatagram {
			_, _ = s.SendTo(c.Packet.Bytes(), c.Source) // a lost datagram is a datagram's right
		} else {
			e.send(s, c.Packet.Bytes())
		}
		_ = c.Packet.Release()
	}
	if c.Events.Has(xtreme.EventOut) {
		rest := e.backlog[s]
		delete(e.backlog, s)
		if len(rest) > 0 && e.send(s, rest) {
			_ = s.Resume()
		}
	}
	switch {
	case c.Events.Has(xtreme.EventClosed):
		delete(e.backlog, s)
		delete(e.finished, s)
		return
	case c.Events.Has(xtreme.EventHup):
		_ = s.Close()
	case c.Events.Has(xtreme.EventRdHup):
		e.finished[s] = true
	}
	if e.finished[s] && len(e.backlog[s]) == 0 {
		_ = s.Close()
	}
}

// send reports whether all of b went.
func (e *echo) send(s *xtreme.Socket, b []byte) bool {
	if waiting := e.backlog[s]; len(waiting) > 0 {
		e.backlog[s] = append(waiting, b...)
		return false
	}
	n, err := s.Send(b)
	if errors.Is(err, ring.ErrWouldBlock) {
		e.backlog[s] = append([]byte(nil), b[n:]...)
		_ = s.Suspend()
	}
	return n == len(b)
}

func listen(t *testing.T, l *Loop, c ...xtreme.ListenConfig) netip.AddrPort {
	t.Helper()
	s, err := l.Poller().ListenTCP(loopback, append(c, xtreme.ListenConfig{})[0])
	require.NoError(t, err)
	return s.LocalAddr()
}

func dial(t *testing.T, a netip.AddrPort) *net.TCPConn {
	t.Helper()
	c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(a))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	return c
}

func dialUDP(t *testing.T, a netip.AddrPort) *net.UDPConn {
	t.Helper()
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(a))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	return c
}

func pingPong(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_, err := c.Write([]byte(text))
	require.NoError(t, err)
	got := make([]byte, len(text))
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	require.Equal(t, text, string(got))
}

func mustEngine(t testing.TB, s conf.Settings) *xtreme.Engine {
	t.Helper()
	e, err := xtreme.New(s)
	require.NoError(t, err)
	t.Attr("ring", string(s.Ring))
	t.Cleanup(func() { require.NoError(t, e.Close(), "every poller must be closed by then") })
	return e
}
