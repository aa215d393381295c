package gnet_test

import (
	"context"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// peer listens for a client; what it accepts is closed at the test's end.
func peer(t *testing.T, say string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			_, _ = c.Write([]byte(say))
		}
	}()
	return l.Addr().String()
}

// Stop from several goroutines, beside Start and Dial, ends the client once, and each of them returns after the end.
func TestClientStopsOnce(t *testing.T) {
	modes(t, func(t *testing.T, _ bool, mode gnet.Option) {
		address := peer(t, "")
		for round := range 6 {
			var shutdowns atomic.Int32
			cli, err := gnet.NewClient(&handler{shutdown: func(gnet.Engine) { shutdowns.Add(1) }}, mode)
			require.NoError(t, err)
			if round%2 == 0 {
				require.NoError(t, cli.Start())
			}
			var all sync.WaitGroup
			if round%2 == 1 {
				all.Go(func() { _ = cli.Start() }) // Stop may come first
			}
			for range 4 {
				all.Go(func() { _, _ = cli.Dial("tcp", address) })
				all.Go(func() {
					if err := cli.Stop(); err != nil {
						t.Error(err)
					}
					if n := shutdowns.Load(); n != 1 {
						t.Errorf("Stop returned after %d calls of OnShutdown", n)
					}
				})
			}
			ended := make(chan struct{})
			go func() { all.Wait(); close(ended) }()
			within(t, ended, "the end of everything")
			require.Equal(t, gnet.ErrEngineInShutdown, cli.Start())
		}
	})
}

// A handler that stops its client does not wait for itself: the end has begun, and Stop elsewhere waits for it.
func TestClientStopInHandlers(t *testing.T) {
	for _, where := range []string{"boot", "open", "traffic", "tick", "shutdown"} {
		t.Run(where, func(t *testing.T) {
			modes(t, func(t *testing.T, _ bool, mode gnet.Option) {
				var cli *gnet.Client
				result := make(chan error, 8)
				var shutdowns atomic.Int32
				stop := func(here string) {
					if here == where {
						result <- cli.Stop()
					}
				}
				cli, err := gnet.NewClient(&handler{
					boot:     func(gnet.Engine) gnet.Action { stop("boot"); return gnet.None },
					open:     func(gnet.Conn) ([]byte, gnet.Action) { stop("open"); return nil, gnet.None },
					traffic:  func(gnet.Conn) gnet.Action { stop("traffic"); return gnet.None },
					tick:     func() (time.Duration, gnet.Action) { stop("tick"); return time.Hour, gnet.None },
					shutdown: func(gnet.Engine) { shutdowns.Add(1); stop("shutdown") },
				}, mode, gnet.WithTicker(true))
				require.NoError(t, err)
				address := peer(t, "x")
				started, ended := make(chan struct{}), make(chan error, 1)
				go func() {
					defer close(started)
					if err := cli.Start(); err == nil {
						_, _ = cli.Dial("tcp", address)
					}
				}()
				if where == "shutdown" {
					within(t, started, "Start")
				} else {
					require.NoError(t, within(t, result, "Stop in the handler"))
				}
				go func() { ended <- cli.Stop() }()
				require.NoError(t, within(t, ended, "Stop"))
				within(t, started, "Start")
				require.EqualValues(t, 1, shutdowns.Load())
			})
		})
	}
}

// Dial in a handler would wait for the loop that it keeps busy.
func TestClientDialInHandler(t *testing.T) {
	address := peer(t, "x")
	var cli *gnet.Client
	result := make(chan error, 1)
	cli, err := gnet.NewClient(&handler{traffic: func(gnet.Conn) gnet.Action {
		_, err := cli.Dial("tcp", address)
		result <- err
		return gnet.Close
	}})
	require.NoError(t, err)
	require.NoError(t, cli.Start())
	_, err = cli.Dial("tcp", address)
	require.NoError(t, err)
	err = within(t, result, "Dial in the handler")
	require.ErrorIs(t, err, gnet.ErrUnsupportedOp)
	require.ErrorContains(t, err, "EventLoop.Register")
	require.NoError(t, cli.Stop())
}

// Engine.Stop with a context that is never done, called where the end waits for the caller.
func TestStopInHandlers(t *testing.T) {
	for _, where := range []string{"boot", "tick", "shutdown"} {
		t.Run(where, func(t *testing.T) {
			var engine gnet.Engine
			result := make(chan error, 1)
			stop := func(here string) {
				if here == where {
					result <- engine.Stop(context.Background())
				}
			}
			s := serve(t, &handler{
				boot:     func(e gnet.Engine) gnet.Action { engine = e; stop("boot"); return gnet.None },
				tick:     func() (time.Duration, gnet.Action) { stop("tick"); return time.Hour, gnet.None },
				shutdown: func(gnet.Engine) { stop("shutdown") },
			}, loopback, gnet.WithTicker(true))
			if where == "shutdown" {
				s.stop(t)
			}
			require.NoError(t, within(t, result, "Stop in the handler"))
			require.NoError(t, s.wait(t))
		})
	}
}

// What served an address that is not served again can be collected.
func TestEndedEngineIsForgotten(t *testing.T) {
	ended := make(chan weak.Pointer[handler], 1)
	go func() {
		h := &handler{tick: func() (time.Duration, gnet.Action) { return time.Hour, gnet.Shutdown }}
		if err := gnet.Run(h, loopback, gnet.WithTicker(true)); err != nil {
			t.Error(err)
		}
		ended <- weak.Make(h)
	}()
	h := within(t, ended, "Run's end")
	require.Eventually(t, func() bool { runtime.GC(); return h.Value() == nil }, 5*time.Second, 10*time.Millisecond)
}

// Goroutines that go on using a connection after its end do not hold the engine up.
func TestStopBesideWritesToAClosedConn(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		inTime(t, true, 500*time.Millisecond, func() time.Duration {
			opened := make(chan gnet.Conn, 1)
			s := serve(t, &handler{open: func(c gnet.Conn) ([]byte, gnet.Action) { opened <- c; return nil, gnet.None }},
				loopback, ring)
			s.dial(t)
			c := within(t, opened, "OnOpen")
			refused := make(chan error, 1)
			go func() {
				for {
					if err := c.AsyncWrite([]byte("x"), nil); err != nil {
						refused <- err
						return
					}
					_ = c.Wake(nil)
					time.Sleep(time.Millisecond)
				}
			}()
			begin := time.Now()
			require.NoError(t, s.engine.Stop(t.Context()))
			took := time.Since(begin)
			require.ErrorIs(t, within(t, refused, "the refusal"), net.ErrClosed)
			return took
		})
	})
}
