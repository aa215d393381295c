package interop

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/reactor/netconn"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

const (
	workers  = 8   // goroutines that use one client; its pool has a connection for each
	requests = 250 // of each of them
	patience = 30 * time.Second
)

// world is what connections are made with: package net, or a Network.
type world struct {
	name   string
	at     string // the address that listen listens on, with port 0
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	listen func(network, address string) (net.Listener, error)
	dials  *atomic.Int64
}

// inEachWorld runs a test over package net, then over each kind of ring. In each it dials as many times as it has connections, and at most extra
// times more, for a client that by chance does so over package net too. In a process that TestOverOwnTCP starts it runs it once, with our own
// TCP at one end.
func inEachWorld(t *testing.T, connections, extra int64, test func(t *testing.T, w world)) {
	run := func(w world) {
		t.Run(w.name, func(t *testing.T) {
			plain := w.dial
			w.dials = new(atomic.Int64)
			w.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				w.dials.Add(1)
				return plain(ctx, network, address)
			}
			begun := time.Now()
			test(t, w)
			t.Logf("%s: %d dials, %v", w.name, w.dials.Load(), time.Since(begun).Round(time.Millisecond))
			require.GreaterOrEqual(t, w.dials.Load(), connections, "dials")
			require.LessOrEqual(t, w.dials.Load(), connections+extra, "dials")
		})
	}
	if own != nil {
		run(own.world(t))
		return
	}
	run(world{name: "net", at: "127.0.0.1:0", dial: new(net.Dialer).DialContext, listen: net.Listen})
	for _, kind := range []conf.RingKind{conf.RingEpoll, conf.RingUring} {
		n := newNetwork(t, kind)
		run(world{name: string(kind), at: "127.0.0.1:0", dial: n.DialContext, listen: func(network, address string) (net.Listener, error) {
			return n.Listen(network, address)
		}})
	}
}

// newNetwork is a Network of a kind of ring; the machine must have it.
func newNetwork(t *testing.T, kind conf.RingKind) *netconn.Network {
	s := conf.Default()
	s.Ring, s.Offload.TCP = kind, kind == conf.RingOffload
	engine, err := xtreme.New(s)
	require.NoError(t, err)
	n, err := netconn.New(engine, netconn.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, n.Close())
		require.NoError(t, engine.Close())
	})
	return n
}

// together runs f once in each worker.
func together(t *testing.T, f func(worker int) error) {
	t.Helper()
	ended := make(chan error, workers)
	for i := range workers {
		go func() { ended <- f(i) }()
	}
	for range workers {
		require.NoError(t, <-ended)
	}
}

// fillPool has each worker hold a connection while all others do. Then the pool has one for each, by chance no fewer, and dials again only
// when it takes one for dead. hold takes a connection and returns how it is given back.
func fillPool(t *testing.T, hold func() (release func(), err error)) {
	t.Helper()
	releases := make([]func(), workers)
	together(t, func(worker int) (err error) {
		releases[worker], err = hold()
		return err
	})
	for _, release := range releases {
		release()
	}
}

// freePort is a port that nobody had a moment ago.
func freePort(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	require.NoError(t, err)
	return port
}

// start starts a server and waits until ready says yes.
func start(t *testing.T, c *exec.Cmd, ready func() bool) {
	log, err := os.CreateTemp(t.TempDir(), "log")
	require.NoError(t, err)
	c.Stdout, c.Stderr = log, log
	require.NoError(t, onServersSide(c.Start))
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		select {
		case <-ended:
		case <-time.After(patience):
			_ = c.Process.Kill()
			<-ended
		}
	})
	for end := time.Now().Add(patience); !ready(); time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-ended:
			ended <- err
			text, _ := os.ReadFile(log.Name())
			require.FailNow(t, "the server ended", "%v: %v\n%s", c.Args, err, text)
		default:
		}
		require.True(t, time.Now().Before(end), "%v does not answer", c.Args)
	}
}

// program finds a server's program; CI installs it.
func program(t *testing.T, names ...string) string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	require.FailNow(t, "not installed", "%s: .ci/run says what to install", names[0])
	return ""
}
