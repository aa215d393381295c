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

func TestOnlyTheMessageArrives(t *testing.T) {
	for _, kind := range []string{"auto", "epoll"} {
		var out bytes.Buffer
		require.NoError(t, runWith([]string{"-ring", kind, "-n", "200", "-every", "10us"}, &out))
		require.Contains(t, out.String(), "warm-send: partly: ")
		require.Contains(t, out.String(), "[warm.kernel_path]\n200 warm sends, 0 found the path cold; 1 message sent\n")
		require.Contains(t, out.String(), `the receiver got 1: "the message that matters"`)
	}
}

// Without the flag the environment's kind of ring is used.
func TestRingOfTheEnvironment(t *testing.T) {
	t.Setenv("SX_RING", "epoll")
	var out bytes.Buffer
	require.NoError(t, runWith([]string{"-n", "10", "-every", "10us"}, &out))
	require.Contains(t, out.String(), "kernel epoll")
}

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{{"-n", "0"}, {"-every", "-1s"}, {"-to", "nowhere"}, {"-ring", "dpdk"}, {"uring"}} {
		_, err := parse(args)
		require.Error(t, err, args)
	}
}
