package gnet_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// blockedLoop blocks each of the loops in turn, in a handler, and reports how many of eight new connections were opened meanwhile.
func (w world) blockedLoop(t *testing.T, o gnet.Options, address string) (opened []int64) {
	var mu sync.Mutex
	var n atomic.Int64
	loops := map[gnet.EventLoop]bool{}
	a := &actor{events: handler{open: func(c gnet.Conn) ([]byte, gnet.Action) {
		mu.Lock()
		defer mu.Unlock()
		loops[c.EventLoop()] = true
		n.Add(1)
		return []byte("!"), gnet.None
	}}}
	s := w.serve(t, a, o, address)
	for range 2 * o.NumEventLoop {
		expect(t, s.dial(t), "!")
	}
	mu.Lock()
	all := make([]gnet.EventLoop, 0, len(loops))
	for el := range loops {
		all = append(all, el)
	}
	mu.Unlock()
	require.Len(t, all, o.NumEventLoop)
	for _, el := range all {
		free, held := make(chan struct{}), make(chan struct{})
		require.NoError(t, el.Execute(t.Context(), runnable(func() error { close(held); <-free; return nil })))
		within(t, held, "the held loop")
		before := n.Load()
		for range 8 {
			s.dial(t)
		}
		wanted := int64(8 - 8/o.NumEventLoop) // the policy gives the others to the loop that is blocked
		for end := time.Now().Add(2 * time.Second); n.Load()-before < wanted && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		opened = append(opened, n.Load()-before)
		close(free)
		assert.Eventually(t, func() bool { return n.Load() == before+8 }, 10*time.Second, time.Millisecond, "all are opened in the end")
	}
	return opened
}

// A handler that blocks its loop keeps no connection from the other loops, whichever it is: accepting is a loop's of its own.
func TestABlockedLoopDoesNotStopAccepting(t *testing.T) {
	semantics(t, map[string]func(*testing.T, world){
		"two loops": func(t *testing.T, w world) {
			require.Equal(t, []int64{4, 4}, w.blockedLoop(t, gnet.Options{NumEventLoop: 2}, loopback))
		},
		"a unix address": func(t *testing.T, w world) {
			require.Equal(t, []int64{4, 4}, w.blockedLoop(t, gnet.Options{NumEventLoop: 2}, unixAddress(t)))
		},
	})
}

// The same with ReusePort and a policy, where each loop has a listener in gnet, and the kernel chooses.
func TestABlockedLoopWithReusePortAndAPolicy(t *testing.T) {
	for _, w := range own {
		if w.exact {
			continue
		}
		t.Run(w.String(), func(t *testing.T) {
			o := gnet.Options{NumEventLoop: 2, ReusePort: true, LB: gnet.LeastConnections}
			require.Equal(t, []int64{4, 4}, w.blockedLoop(t, o, "tcp://"+freePort(t)))
		})
	}
}
