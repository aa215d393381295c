package gnet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// OnShutdown comes after every OnClose, and before them in exact gnet; Stop takes as long as it takes, and half a
// second in exact gnet. The listener can be duplicated in OnShutdown in both.
func TestStop(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		modes(t, func(t *testing.T, exact bool, mode gnet.Option) {
			inTime(t, !exact, 300*time.Millisecond, func() time.Duration {
				var mu sync.Mutex
				var events []string
				note := func(s string) { mu.Lock(); events = append(events, s); mu.Unlock() }
				opened := make(chan struct{}, 8)
				dup := make(chan error, 1)
				h := &handler{
					open:  func(gnet.Conn) ([]byte, gnet.Action) { opened <- struct{}{}; return nil, gnet.None },
					close: func(_ gnet.Conn, err error) gnet.Action { require.NoError(t, err); note("close"); return gnet.None },
					shutdown: func(e gnet.Engine) {
						fd, err := e.Dup()
						if err == nil {
							err = closeFD(fd)
						}
						dup <- err
						note("shutdown")
					},
				}
				s := serve(t, h, loopback, ring, mode, gnet.WithNumEventLoop(2))
				for range 4 {
					s.dial(t)
					within(t, opened, "OnOpen")
				}
				require.Equal(t, 4, s.engine.CountConnections())
				begin := time.Now()
				require.NoError(t, s.engine.Stop(t.Context()))
				took := time.Since(begin)
				require.NoError(t, s.wait(t))
				require.NoError(t, within(t, dup, "Dup"))
				want := []string{"close", "close", "close", "close", "shutdown"}
				if exact {
					want = []string{"shutdown", "close", "close", "close", "close"}
					require.GreaterOrEqual(t, took, 490*time.Millisecond)
				}
				require.Equal(t, want, events)
				require.Equal(t, gnet.ErrEngineInShutdown, s.engine.Stop(t.Context()))
				require.Equal(t, gnet.ErrEngineInShutdown, s.engine.Validate())
				require.Equal(t, -1, s.engine.CountConnections())
				return took
			})
		})
	})
}

// A handler that stops the engine from its loop does not wait for itself.
func TestStopFromTheLoop(t *testing.T) {
	result := make(chan error, 1)
	var engine gnet.Engine
	h := &handler{
		boot:    func(e gnet.Engine) gnet.Action { engine = e; return gnet.None },
		traffic: func(gnet.Conn) gnet.Action { result <- engine.Stop(context.Background()); return gnet.None },
	}
	s := serve(t, h, loopback)
	_, err := s.dial(t).Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, within(t, result, "Stop"))
	require.NoError(t, s.wait(t))
}

// Each way a handler can end the engine or a connection.
func TestActions(t *testing.T) {
	modes(t, func(t *testing.T, exact bool, mode gnet.Option) {
		for name, h := range map[string]*handler{
			"open":    {open: func(gnet.Conn) ([]byte, gnet.Action) { return []byte("bye"), gnet.Shutdown }},
			"traffic": {traffic: func(gnet.Conn) gnet.Action { return gnet.Shutdown }},
			"close": {traffic: func(gnet.Conn) gnet.Action { return gnet.Close },
				close: func(gnet.Conn, error) gnet.Action { return gnet.Shutdown }},
		} {
			t.Run(name, func(t *testing.T) {
				s := serve(t, h, loopback, mode, gnet.WithNumEventLoop(2))
				c := s.dial(t)
				_, _ = c.Write([]byte("x"))
				got, _ := io.ReadAll(c)
				if name == "open" {
					require.Equal(t, "bye", string(got))
				}
				require.NoError(t, s.wait(t))
			})
		}
		t.Run("tick", func(t *testing.T) {
			h := &handler{tick: func() (time.Duration, gnet.Action) { return time.Hour, gnet.Shutdown }}
			s := serve(t, h, loopback, mode, gnet.WithTicker(true))
			require.NoError(t, s.wait(t))
		})
		t.Run("boot", func(t *testing.T) {
			h := &handler{boot: func(gnet.Engine) gnet.Action { return gnet.Shutdown },
				shutdown: func(gnet.Engine) { t.Error("OnShutdown without a start") }}
			require.NoError(t, gnet.Run(h, loopback, mode))
		})
	})
}

// What OnClose closes, and a write that fails, ends other connections only when the handler has returned; exact gnet
// calls OnClose inside OnClose.
func TestCloseIsNotReentrant(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		modes(t, func(t *testing.T, exact bool, mode gnet.Option) {
			depth, deepest := 0, 0
			var conns []gnet.Conn
			done := make(chan struct{}, 2)
			h := &handler{
				open: func(c gnet.Conn) ([]byte, gnet.Action) { conns = append(conns, c); return []byte("!"), gnet.None },
				close: func(c gnet.Conn, _ error) gnet.Action {
					depth++
					deepest = max(deepest, depth)
					for _, other := range conns {
						_ = c.EventLoop().Close(other)
					}
					depth--
					done <- struct{}{}
					return gnet.None
				},
				traffic: func(gnet.Conn) gnet.Action { return gnet.Close },
			}
			s := serve(t, h, loopback, ring, mode)
			a, b := s.dial(t), s.dial(t)
			_, err := io.ReadFull(a, make([]byte, 1))
			require.NoError(t, err)
			_, err = io.ReadFull(b, make([]byte, 1))
			require.NoError(t, err)
			_, err = a.Write([]byte("x"))
			require.NoError(t, err)
			within(t, done, "OnClose")
			within(t, done, "OnClose of the other")
			s.stop(t)
			if exact {
				require.Equal(t, 2, deepest)
			} else {
				require.Equal(t, 1, deepest)
			}
		})
	})
}

// A write on a reset connection: OnClose comes once, after the handler, and later writes say why.
func TestFailedWrite(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		modes(t, func(t *testing.T, exact bool, mode gnet.Option) {
			closed := make(chan error, 4)
			errs := make(chan error, 2)
			inside := false
			entered, gone := make(chan struct{}), make(chan struct{})
			h := &handler{
				close: func(_ gnet.Conn, err error) gnet.Action {
					require.Equal(t, exact, inside)
					closed <- err
					return gnet.None
				},
				traffic: func(c gnet.Conn) gnet.Action {
					inside = true
					defer func() { inside = false }()
					close(entered)
					<-gone
					_, err := c.Write([]byte("x"))
					errs <- err
					_, err = c.Write([]byte("again"))
					errs <- err
					return gnet.Close
				},
			}
			s := serve(t, h, loopback, ring, mode)
			c := s.dial(t).(*net.TCPConn)
			_, err := c.Write([]byte("x"))
			require.NoError(t, err)
			within(t, entered, "OnTraffic")
			require.NoError(t, c.SetLinger(0))
			require.NoError(t, c.Close())
			close(gone)
			require.Error(t, within(t, errs, "a failing write"))
			require.Error(t, within(t, errs, "the write after it"))
			require.Error(t, within(t, closed, "OnClose"))
			s.stop(t)
			require.Empty(t, closed)
		})
	})
}

// A panic costs its connection; the others and what other goroutines asked for go on.
func TestPanicIsContained(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		closed := make(chan error, 4)
		var others atomic.Int64
		h := &handler{close: func(_ gnet.Conn, err error) gnet.Action { closed <- err; return gnet.None }}
		h.traffic = func(c gnet.Conn) gnet.Action {
			b, _ := c.Next(-1)
			switch string(b) {
			case "panic":
				panic("in OnTraffic")
			case "task":
				ready := make(chan struct{})
				go func() {
					_ = c.AsyncWrite(nil, func(gnet.Conn, error) error { panic("in a callback") })
					for range 3 {
						_ = c.EventLoop().Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error {
							others.Add(1)
							return nil
						}))
					}
					close(ready)
				}()
				<-ready
			default:
				_, _ = c.Write(b)
			}
			return gnet.None
		}
		s := serve(t, h, loopback, ring)
		healthy := s.dial(t)
		for _, message := range []string{"panic", "task"} {
			c := s.dial(t)
			_, err := c.Write([]byte(message))
			require.NoError(t, err)
			require.ErrorIs(t, within(t, closed, "OnClose"), gnet.ErrHandlerPanic)
			_, err = io.ReadAll(c)
			require.Error(t, err, "a reset")
			_, err = healthy.Write([]byte("ok"))
			require.NoError(t, err)
			_, err = io.ReadFull(healthy, make([]byte, 2))
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool { return others.Load() == 3 }, 5*time.Second, time.Millisecond)
		require.Equal(t, 1, s.engine.CountConnections())
	})
}

// A schedule runs on the loop after its delay, also when the handler has worked for a while before it asks.
func TestSchedule(t *testing.T) {
	ran := make(chan time.Duration, 1)
	h := &handler{open: func(c gnet.Conn) ([]byte, gnet.Action) {
		time.Sleep(20 * time.Millisecond)
		begin := time.Now()
		err := c.EventLoop().Schedule(t.Context(), gnet.RunnableFunc(func(context.Context) error {
			ran <- time.Since(begin)
			return nil
		}), 30*time.Millisecond)
		require.NoError(t, err)
		require.ErrorIs(t, c.EventLoop().Schedule(t.Context(), nil, 0), gnet.ErrNilRunnable)
		return nil, gnet.None
	}}
	s := serve(t, h, loopback)
	s.dial(t)
	require.GreaterOrEqual(t, within(t, ran, "the runnable"), 29*time.Millisecond)
}

// Unread bytes can still be read in OnClose.
func TestOnCloseSeesTheRest(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		rest := make(chan string, 1)
		h := &handler{close: func(c gnet.Conn, err error) gnet.Action {
			require.ErrorIs(t, err, io.EOF)
			require.EqualError(t, err, "read: EOF")
			b, _ := c.Next(-1)
			rest <- string(b)
			return gnet.None
		}}
		s := serve(t, h, loopback, ring)
		c := s.dial(t)
		_, err := c.Write([]byte("unread"))
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.Equal(t, "unread", within(t, rest, "OnClose"))
	})
}

// Options that cannot be meant are refused by name.
func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]gnet.Option{
		"LB":             gnet.WithLoadBalancing(9),
		"RxPoll":         gnet.WithRxPoll(-2, 0),
		"MaxConnections": gnet.WithMaxConnections(-1),
		"OutboundHigh":   gnet.WithOutboundLimits(-2, 0),
		"OutboundHard":   gnet.WithOutboundLimits(100, 50),
		"InboundCap":     gnet.WithInboundCap(-2),
		"IdleTimeout":    gnet.WithIdleTimeout(-1),
		"SmallBuffers":   gnet.WithBuffers(-1, 1),
	} {
		err := gnet.Run(&handler{}, loopback, o)
		require.ErrorContains(t, err, name)
	}
	require.True(t, errors.Is(gnet.Run(&handler{}, loopback, gnet.WithNumEventLoop(10001), gnet.WithLockOSThread(true)),
		gnet.ErrTooManyEventLoopThreads))
}
