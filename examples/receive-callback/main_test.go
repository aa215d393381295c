package main

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func runWith(args []string, out io.Writer) error {
	c, err := parse(args)
	if err != nil {
		return err
	}
	return run(c, out)
}

func TestAddsUp(t *testing.T) {
	for _, kind := range []string{"auto", "epoll"} {
		var out bytes.Buffer
		require.NoError(t, runWith([]string{"-ring", kind, "-n", "1001"}, &out))
		require.Contains(t, out.String(), "2002 datagrams: 1001 dropped, 101 held, 900 delivered\n101 released by another goroutine\nbuffers: ")
		require.Contains(t, out.String(), "held 0, lent 0")
	}
}

// Without the flag the environment's kind of ring is used.
func TestRingOfTheEnvironment(t *testing.T) {
	t.Setenv("SX_RING", "epoll")
	var out bytes.Buffer
	require.NoError(t, runWith([]string{"-n", "10"}, &out))
	require.Contains(t, out.String(), "kernel epoll")
}

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{{"-n", "0"}, {"-n", "x"}, {"-ring", "dpdk"}, {"uring"}} {
		_, err := parse(args)
		require.Error(t, err, args)
	}
}
