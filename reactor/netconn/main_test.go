package netconn

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
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

func quietLog() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// newNetwork is a network that must close in good order, with every buffer back in its pool, when the test ends.
func newNetwork(t testing.TB, kind conf.RingKind, c Config) *Network {
	t.Helper()
	s := conf.Default()
	s.Ring, s.SmallBuffers, s.LargeBuffers = kind, 1024, 64
	e, err := xtreme.New(s)
	require.NoError(t, err)
	if c.Logger == nil {
		c.Logger = quietLog()
	}
	n, err := New(e, c)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, closeSoon(n))
		require.NoError(t, e.Close())
	})
	return n
}

func closeSoon(n *Network) error {
	result := make(chan error, 1)
	go func() { result <- n.Close() }()
	select {
	case err := <-result:
		return err
	case <-time.After(patience):
		return errors.New("the network did not close")
	}
}

// address is one to listen on.
func address(t testing.TB, network string) string {
	if network == "unix" {
		dir, err := os.MkdirTemp("", "nc") // t.TempDir's names can be too long for a socket
		require.NoError(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		return filepath.Join(dir, "s")
	}
	return "127.0.0.1:0"
}

func listen(t testing.TB, n *Network, network string) *Listener {
	t.Helper()
	ln, err := n.Listen(network, address(t, network))
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// pair is two ends of a connection, both ours.
func pair(t testing.TB, n *Network, network string) (dialled, accepted *Conn) {
	t.Helper()
	ln := listen(t, n, network)
	c, err := n.Dial(network, ln.Addr().String())
	require.NoError(t, err)
	a, err := ln.AcceptConn()
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(); _ = a.Close() })
	return c.(*Conn), a
}

// mixed is two ends of a TCP connection, the first one ours and accepted, the second of package net.
func mixed(t testing.TB, n *Network) (*Conn, *net.TCPConn) {
	t.Helper()
	ln := listen(t, n, "tcp")
	c, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	a, err := ln.AcceptConn()
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(); _ = a.Close() })
	return a, c.(*net.TCPConn)
}

func withPatience(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func wait[T any](t testing.TB, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		buf := make([]byte, 1<<20)
		t.Logf("%s", buf[:runtime.Stack(buf, true)])
		require.FailNow(t, "nothing came")
	}
	return v
}

// eventually waits for a condition that no call reports.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(end), what)
	}
}

func pingPong(t testing.TB, a, b net.Conn, text string) {
	t.Helper()
	_, err := a.Write([]byte(text))
	require.NoError(t, err)
	got := make([]byte, len(text))
	_, err = io.ReadFull(b, got)
	require.NoError(t, err)
	require.Equal(t, text, string(got))
}

func contextAfter(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}
