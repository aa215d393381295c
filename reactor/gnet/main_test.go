package gnet_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// handler is a handler of functions.
type handler struct {
	boot     func(gnet.Engine) gnet.Action
	shutdown func(gnet.Engine)
	open     func(gnet.Conn) ([]byte, gnet.Action)
	close    func(gnet.Conn, error) gnet.Action
	traffic  func(gnet.Conn) gnet.Action
	tick     func() (time.Duration, gnet.Action)
	drained  func(gnet.Conn) gnet.Action
}

func (h *handler) OnBoot(e gnet.Engine) (a gnet.Action) {
	if h.boot != nil {
		a = h.boot(e)
	}
	return a
}

func (h *handler) OnShutdown(e gnet.Engine) {
	if h.shutdown != nil {
		h.shutdown(e)
	}
}

func (h *handler) OnOpen(c gnet.Conn) (out []byte, a gnet.Action) {
	if h.open != nil {
		out, a = h.open(c)
	}
	return out, a
}

func (h *handler) OnClose(c gnet.Conn, err error) (a gnet.Action) {
	if h.close != nil {
		a = h.close(c, err)
	}
	return a
}

func (h *handler) OnTraffic(c gnet.Conn) (a gnet.Action) {
	if h.traffic != nil {
		a = h.traffic(c)
	}
	return a
}

func (h *handler) OnTick() (d time.Duration, a gnet.Action) {
	if h.tick != nil {
		return h.tick()
	}
	return time.Hour, gnet.None
}

func (h *handler) OnDrained(c gnet.Conn) (a gnet.Action) {
	if h.drained != nil {
		a = h.drained(c)
	}
	return a
}

// echo sends back what it gets.
func echo(c gnet.Conn) gnet.Action {
	b, _ := c.Next(-1)
	_, _ = c.Write(b)
	return gnet.None
}

// inTime runs f, which reports how long something took, and if that is asked for again until it was less than the limit: five times at most,
// because a busy machine may stop any one of them. What must not be waited for would be waited for each time.
func inTime(t *testing.T, asked bool, limit time.Duration, f func() time.Duration) {
	t.Helper()
	took := f()
	for try := 1; asked && took >= limit && try < 5; try++ {
		t.Logf("it took %v", took)
		took = f()
	}
	if asked {
		require.Less(t, took, limit)
	}
}

// server is a running engine.
type server struct {
	engine gnet.Engine
	addr   net.Addr
	result chan error
	once   sync.Once
}

// serve runs a handler and returns when it is booted; it is stopped at the test's end.
func serve(t *testing.T, h *handler, address string, options ...gnet.Option) *server {
	t.Helper()
	s := &server{result: make(chan error, 1)}
	booted := make(chan struct{})
	boot := h.boot
	h.boot = func(e gnet.Engine) gnet.Action {
		s.engine = e
		s.addr = e.Addrs()[0]
		defer close(booted)
		if boot != nil {
			return boot(e)
		}
		return gnet.None
	}
	go func() { s.result <- gnet.Run(h, address, options...) }()
	select {
	case <-booted:
	case err := <-s.result:
		require.NoError(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("no OnBoot")
	}
	t.Cleanup(func() { s.stop(t) })
	return s
}

// stop stops the engine and waits for Run, not for the ticks of exact gnet's Stop.
func (s *server) stop(t *testing.T) {
	s.once.Do(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.engine.Stop(ctx) // begins the end; its answer is whether that was all
		s.wait(t)
	})
}

func (s *server) wait(t *testing.T) error {
	select {
	case err := <-s.result:
		s.result <- err
		return err
	case <-time.After(20 * time.Second):
		t.Fatalf("Run does not return\n%s", everybody())
		return nil
	}
}

// everybody says where each goroutine is, and in which system call each thread.
func everybody() string {
	b := make([]byte, 1<<20)
	b = b[:runtime.Stack(b, true)]
	calls, _ := filepath.Glob("/proc/self/task/*/syscall")
	for _, name := range calls {
		text, _ := os.ReadFile(name)
		b = append(b, name+" "+string(text)...)
	}
	return string(b)
}

func (s *server) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial(s.addr.Network(), s.addr.String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	return c
}

// rings runs a test on each kind of ring.
func rings(t *testing.T, f func(t *testing.T, ring gnet.Option)) {
	for _, k := range []conf.RingKind{conf.RingUring, conf.RingEpoll} {
		t.Run(string(k), func(t *testing.T) { f(t, gnet.WithRing(k)) })
	}
}

// modes runs a test in both modes.
func modes(t *testing.T, f func(t *testing.T, exact bool, mode gnet.Option)) {
	t.Run("default", func(t *testing.T) { f(t, false, func(*gnet.Options) {}) })
	t.Run("exact", func(t *testing.T) { f(t, true, gnet.WithExactGnet()) })
}

// within waits for something that another goroutine does.
func within[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s did not happen", what)
	}
	return v
}

const loopback = "tcp://127.0.0.1:0"
