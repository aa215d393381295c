package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// redis-benchmark on the kernel's side, against the server over our own TCP, which is there by settings alone.
func TestRedisBenchmarkToOwnTCP(t *testing.T) {
	testnet.NeedProgram(t, "redis-benchmark")
	n := testnet.New(t, testnet.Pair{})
	host := n.Local(0).String()
	stop := n.OwnTCP(t, asProgram, "listening on", "-listen", host+":6379")
	for _, args := range [][]string{{"-t", "ping,set,get", "-n", "5000", "-c", "20"}, {"-t", "set,get", "-n", "2000", "-c", "5", "-P", "16", "-d", "20000"}} {
		said := n.RunInPeer(t, "redis-benchmark", append([]string{"-h", host, "-p", "6379", "-q"}, args...)...)
		require.Contains(t, said, "requests per second")
		require.NotContains(t, strings.ToLower(said), "error")
	}
	require.Contains(t, stop(), "bypass xdp v0/0")
}
