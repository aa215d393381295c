package gnet_test

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/reactor/gnet"
)

// spread opens n connections and counts them by loop.
func spread(t *testing.T, n int, options ...gnet.Option) (counts []int, conns []net.Conn, loops []gnet.EventLoop) {
	var mu sync.Mutex
	byLoop := map[gnet.EventLoop]int{}
	h := &handler{open: func(c gnet.Conn) ([]byte, gnet.Action) {
		mu.Lock()
		defer mu.Unlock()
		byLoop[c.EventLoop()]++
		loops = append(loops, c.EventLoop())
		return []byte("!"), gnet.None
	}}
	s := serve(t, h, loopback, options...)
	for range n {
		c := s.dial(t)
		_, err := io.ReadFull(c, make([]byte, 1))
		require.NoError(t, err)
		conns = append(conns, c)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, k := range byLoop {
		counts = append(counts, k)
	}
	return counts, conns, loops
}

// Without ReusePort, and with it when a policy was asked for, connections go where the policy says.
func TestBalance(t *testing.T) {
	rings(t, func(t *testing.T, ring gnet.Option) {
		for _, lb := range []gnet.LoadBalancing{gnet.RoundRobin, gnet.LeastConnections} {
			counts, _, _ := spread(t, 12, ring, gnet.WithNumEventLoop(3), gnet.WithLoadBalancing(lb))
			require.Equal(t, []int{4, 4, 4}, counts)
		}
		counts, _, _ := spread(t, 12, ring, gnet.WithNumEventLoop(3), gnet.WithReusePort(true),
			gnet.WithLoadBalancing(gnet.LeastConnections))
		require.Equal(t, []int{4, 4, 4}, counts)
		counts, _, _ = spread(t, 40, ring, gnet.WithNumEventLoop(3), gnet.WithLoadBalancing(gnet.SourceAddrHash))
		require.Len(t, counts, 3, "40 source ports fall on each of three loops")
	})
}

// Round robin goes around.
func TestRoundRobinOrder(t *testing.T) {
	_, _, loops := spread(t, 6, gnet.WithNumEventLoop(3))
	require.Equal(t, loops[:3], loops[3:])
	require.NotEqual(t, loops[0], loops[1])
	require.NotEqual(t, loops[1], loops[2])
}
