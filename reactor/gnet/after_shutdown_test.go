package gnet_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// afterShutdown runs a server of one loop, holds the loop while prepare sends, and lets the first event that the loop then has
// return Shutdown. It answers how many calls came for events on the loop after that, OnClose apart.
func (w world) afterShutdown(t *testing.T, address string, from string, prepare func(s *service, known []net.Conn)) (later int64) {
	var armed, over atomic.Bool
	var after, closed, opened atomic.Int64
	loops := make(chan gnet.EventLoop, 1)
	event := func(what string, c gnet.Conn) gnet.Action {
		if c != nil {
			select {
			case loops <- c.EventLoop():
			default:
			}
		}
		switch {
		case !armed.Load():
			return gnet.None
		case over.Load():
			after.Add(1)
		case what == from:
			over.Store(true)
			return gnet.Shutdown
		}
		return gnet.None
	}
	a := &actor{}
	a.events.open = func(c gnet.Conn) ([]byte, gnet.Action) { opened.Add(1); return nil, event("OnOpen", c) }
	a.events.traffic = func(c gnet.Conn) gnet.Action { _, _ = c.Next(-1); return event("OnTraffic", c) }
	a.events.close = func(c gnet.Conn, _ error) gnet.Action {
		closed.Add(1)
		if from == "OnClose" && armed.Load() && !over.Load() {
			over.Store(true)
			return gnet.Shutdown
		}
		return gnet.None
	}
	s := w.serve(t, a, gnet.Options{NumEventLoop: 1}, address)
	var known []net.Conn
	for range 4 {
		c := s.dial(t)
		known = append(known, c)
		send(t, c, "first")
	}
	if s.network[0] != "udp" {
		require.Eventually(t, func() bool { return opened.Load() == 4 }, 10*time.Second, time.Millisecond)
	}
	loop := within(t, loops, "an event")
	time.Sleep(20 * time.Millisecond) // what was sent first is read
	free, held := make(chan struct{}), make(chan struct{})
	require.NoError(t, loop.Execute(t.Context(), runnable(func() error { close(held); <-free; return nil })))
	within(t, held, "the held loop")
	release := sync.OnceFunc(func() { close(free) })
	defer release()
	prepare(s, known)
	time.Sleep(20 * time.Millisecond)
	armed.Store(true)
	release()
	assert.NoError(t, s.wait(t))
	assert.True(t, over.Load(), "nothing returned Shutdown")
	assert.Equal(t, opened.Load(), closed.Load(), "OnOpen and OnClose")
	return after.Load()
}

// What the loop has polled with the event whose handler returned Shutdown is not shown to the handler any more.
func TestNothingAfterShutdown(t *testing.T) {
	semantics(t, map[string]func(*testing.T, world){
		"OnTraffic": func(t *testing.T, w world) {
			require.Zero(t, w.afterShutdown(t, loopback, "OnTraffic", func(_ *service, known []net.Conn) {
				for _, c := range known {
					send(t, c, "second")
				}
			}))
		},
		"OnClose": func(t *testing.T, w world) {
			require.Zero(t, w.afterShutdown(t, loopback, "OnClose", func(_ *service, known []net.Conn) {
				require.NoError(t, known[0].Close())
				time.Sleep(time.Millisecond)
				for _, c := range known[1:] {
					send(t, c, "second")
				}
			}))
		},
		"OnTraffic of a datagram": func(t *testing.T, w world) {
			require.Zero(t, w.afterShutdown(t, "udp://127.0.0.1:0", "OnTraffic", func(_ *service, known []net.Conn) {
				for range 10 {
					for _, c := range known {
						send(t, c, "second")
					}
				}
			}))
		},
	})
}
