package gnet_test

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/reactor"
	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

var stopLoop = gnet.WithPanicPolicy(reactor.StopLoop)

// A loop that ends in the middle of the engine's end, with what was asked of it, does not keep the others, and OnClose is called for
// each of its connections, before OnShutdown.
func TestLoopFailsDuringTheEnd(t *testing.T) {
	for _, which := range []string{"first", "last"} {
		t.Run(which, func(t *testing.T) {
			rings(t, func(t *testing.T, ring gnet.Option) {
				const connections = 8
				opens := make(chan gnet.Conn, connections)
				var mu sync.Mutex
				var bad gnet.EventLoop
				var closes, afterwards atomic.Int32
				h := &handler{
					open: func(c gnet.Conn) ([]byte, gnet.Action) { opens <- c; return nil, gnet.None },
					close: func(c gnet.Conn, err error) gnet.Action {
						closes.Add(1)
						mu.Lock()
						panics := c.EventLoop() == bad
						mu.Unlock()
						if panics {
							panic("in OnClose")
						}
						return gnet.None
					},
					shutdown: func(gnet.Engine) { afterwards.Store(closes.Load()) },
				}
				s := serve(t, h, loopback, ring, stopLoop, gnet.WithNumEventLoop(2))
				loops := make([]gnet.EventLoop, connections)
				for i := range loops { // round robin: loop 0 first
					s.dial(t)
					loops[i] = within(t, opens, "OnOpen").EventLoop()
				}
				mu.Lock()
				if bad = loops[0]; which == "last" {
					bad = loops[1]
				}
				mu.Unlock()
				require.NotEqual(t, loops[0], loops[1])
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				require.NoError(t, s.engine.Stop(ctx))
				var panicked *reactor.PanicError
				require.ErrorAs(t, s.wait(t), &panicked)
				require.Equal(t, "in OnClose", panicked.Value)
				require.EqualValues(t, connections, closes.Load())
				require.EqualValues(t, connections, afterwards.Load(), "OnShutdown came before an OnClose")
			})
		})
	}
}

// A panic that ends a loop ends the engine: OnClose is called for each connection, told ErrHandlerPanic on that loop, and Fd is -1.
func TestStopLoopClosesEveryConnection(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		const connections = 8
		opens := make(chan gnet.Conn, connections)
		var mu sync.Mutex
		why := map[gnet.Conn]error{}
		inside := map[gnet.Conn]error{}
		h := &handler{
			open:    func(c gnet.Conn) ([]byte, gnet.Action) { opens <- c; return nil, gnet.None },
			traffic: func(c gnet.Conn) gnet.Action { panic("in OnTraffic") },
			close: func(c gnet.Conn, err error) gnet.Action {
				mu.Lock()
				defer mu.Unlock()
				why[c] = err
				_, inside[c] = c.Dup()
				_, _ = c.Write([]byte("a last word"))
				return gnet.None
			},
		}
		s := serve(t, h, loopback, ring, stopLoop, gnet.WithNumEventLoop(2))
		var conns []gnet.Conn
		var first net.Conn
		for i := range connections {
			if c := s.dial(t); i == 0 {
				first = c
			}
			conns = append(conns, within(t, opens, "OnOpen"))
		}
		wrote := make(chan error, 1)
		send(t, first, "x")
		var panicked *reactor.PanicError
		require.ErrorAs(t, s.wait(t), &panicked)
		require.Equal(t, "in OnTraffic", panicked.Value)
		require.Len(t, why, connections)
		for i, c := range conns {
			require.Equal(t, -1, c.Fd())
			if i%2 == 0 { // the loop that ended
				require.ErrorIs(t, why[c], gnet.ErrHandlerPanic)
				require.ErrorIs(t, inside[c], net.ErrClosed, "its descriptor may be another's")
			} else {
				require.NoError(t, why[c])
			}
		}
		err := conns[0].AsyncWrite([]byte("x"), func(_ gnet.Conn, err error) error { wrote <- err; return nil })
		require.ErrorIs(t, err, net.ErrClosed)
		require.Empty(t, wrote)
	})
}

// What a loop was asked for and did not come to because it ended is answered, and descriptors on their way to it are closed.
func TestTasksOfALoopThatFailed(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		opens := make(chan gnet.Conn, 8)
		release, run, callbacks := make(chan struct{}), make(chan error, 1), make(chan error, 1)
		h := &handler{
			open: func(c gnet.Conn) ([]byte, gnet.Action) { opens <- c; return nil, gnet.None },
			traffic: func(c gnet.Conn) gnet.Action {
				if b, _ := c.Next(-1); string(b) == "panic" {
					<-release
					panic("in OnTraffic")
				}
				return gnet.None
			},
		}
		s := serve(t, h, loopback, ring, stopLoop, gnet.WithNumEventLoop(2))
		s.dial(t) // on loop 0
		within(t, opens, "OnOpen")
		second := s.dial(t)
		bad := within(t, opens, "OnOpen")
		send(t, second, "panic")
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { _ = l.Close() }()
		out, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		registered, err := bad.EventLoop().Enroll(t.Context(), out)
		require.NoError(t, err)
		require.NoError(t, bad.AsyncWrite([]byte("x"), func(_ gnet.Conn, err error) error { callbacks <- err; return nil }))
		require.NoError(t, bad.EventLoop().Execute(t.Context(), runnable(func() error { run <- nil; return nil })))
		var late []net.Conn
		for range 6 { // half of these go to the loop that is about to end
			late = append(late, s.dial(t))
		}
		for range 3 {
			within(t, opens, "OnOpen on the loop that lives")
		}
		close(release)
		var panicked *reactor.PanicError
		require.ErrorAs(t, s.wait(t), &panicked)
		require.ErrorIs(t, within(t, callbacks, "the callback"), net.ErrClosed)
		within(t, run, "the Runnable")
		require.Error(t, within(t, registered, "the answer to Enroll").Err)
		for _, c := range late {
			require.NoError(t, c.SetReadDeadline(time.Now().Add(5*time.Second)))
			_, err := c.Read(make([]byte, 1))
			require.Error(t, err)
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "nobody closed it")
		}
	})
}

// A client one of whose loops fails ends by itself: OnClose and OnShutdown are called, Dial says so, Stop returns the panic.
func TestClientEndsWhenALoopFails(t *testing.T) {
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll} {
		t.Run(string(kind), func(t *testing.T) {
			var closes atomic.Int32
			shut := make(chan int32, 2)
			h := &handler{
				traffic:  func(gnet.Conn) gnet.Action { panic("in OnTraffic") },
				close:    func(gnet.Conn, error) gnet.Action { closes.Add(1); return gnet.None },
				shutdown: func(gnet.Engine) { shut <- closes.Load() },
			}
			cli, err := gnet.NewClient(h, gnet.WithRing(kind), stopLoop, gnet.WithNumEventLoop(2))
			require.NoError(t, err)
			require.NoError(t, cli.Start())
			quiet, loud := peer(t, ""), peer(t, "x")
			for range 5 {
				_, err := cli.Dial("tcp", quiet)
				require.NoError(t, err)
			}
			_, _ = cli.Dial("tcp", loud)
			require.EqualValues(t, 6, within(t, shut, "OnShutdown"))
			for range 3 {
				_, err = cli.Dial("tcp", quiet)
				require.Equal(t, gnet.ErrEngineInShutdown, err)
			}
			var panicked *reactor.PanicError
			for range 2 {
				require.ErrorAs(t, cli.Stop(), &panicked)
			}
			require.Empty(t, shut, "OnShutdown once")
		})
	}
}

// So does one whose OnTick panics.
func TestClientEndsWhenOnTickFails(t *testing.T) {
	shut := make(chan struct{})
	h := &handler{
		tick:     func() (time.Duration, gnet.Action) { panic(errors.ErrUnsupported) },
		shutdown: func(gnet.Engine) { close(shut) },
	}
	cli, err := gnet.NewClient(h, gnet.WithTicker(true), stopLoop)
	require.NoError(t, err)
	require.NoError(t, cli.Start())
	within(t, shut, "OnShutdown")
	require.ErrorIs(t, cli.Stop(), errors.ErrUnsupported)
}

// A handler that leaves its goroutine, as a failing test does, ends the engine with an error.
func TestGoexitInAHandler(t *testing.T) {
	closes := make(chan error, 2)
	h := &handler{
		traffic: func(gnet.Conn) gnet.Action { runtime.Goexit(); return gnet.None },
		close:   func(_ gnet.Conn, err error) gnet.Action { closes <- err; return gnet.None },
	}
	s := serve(t, h, loopback)
	send(t, s.dial(t), "x")
	require.ErrorContains(t, s.wait(t), "Goexit")
	require.ErrorContains(t, within(t, closes, "OnClose"), "Goexit")
}

// A connection whose handler panicked gives its descriptor to nobody, from the panic on.
func TestDescriptorAfterAPanic(t *testing.T) {
	for _, where := range []string{"traffic", "open", "wake"} {
		t.Run(where, func(t *testing.T) {
			rings(t, func(t *testing.T, ring gnet.Option) {
				conns, closes := make(chan gnet.Conn, 1), make(chan int, 1)
				h := &handler{
					open: func(c gnet.Conn) ([]byte, gnet.Action) {
						conns <- c
						if where == "open" {
							panic("in OnOpen")
						}
						return nil, gnet.None
					},
					traffic: func(c gnet.Conn) gnet.Action { panic("in OnTraffic") },
					close: func(c gnet.Conn, err error) gnet.Action {
						closes <- c.Fd() // CLOSED has come; finish has not run
						return gnet.None
					},
				}
				s := serve(t, h, loopback, ring)
				peer, err := net.Dial("tcp", s.addr.String()) // fails when the reset comes soon
				if err == nil {
					defer func() { _ = peer.Close() }()
				}
				c := within(t, conns, "OnOpen")
				switch where {
				case "traffic":
					send(t, peer, "x")
				case "wake":
					require.NoError(t, c.Wake(nil))
				}
				require.Equal(t, -1, within(t, closes, "OnClose"))
			})
		})
	}
}
