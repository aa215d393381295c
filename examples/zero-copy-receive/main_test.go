package main

import (
	"bytes"
	"io"
	"strings"
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

func TestSameAtBothEnds(t *testing.T) {
	for _, kind := range []string{"auto", "epoll"} {
		var out bytes.Buffer
		require.NoError(t, runWith([]string{"-ring", kind, "-mib", "8"}, &out))
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.Len(t, lines, 4)
		require.Contains(t, lines[1], "zero-copy-receive: partly: ")
		sent, found := strings.CutPrefix(lines[2], "sent     ")
		require.True(t, found)
		require.Contains(t, sent, "8388608 bytes, sha256 ")
		require.True(t, strings.HasPrefix(lines[3], "received "+sent+" in "))
	}
}

// Without the flag the environment's kind of ring is used.
func TestRingOfTheEnvironment(t *testing.T) {
	t.Setenv("SX_RING", "epoll")
	var out bytes.Buffer
	require.NoError(t, runWith([]string{"-mib", "1"}, &out))
	require.Contains(t, out.String(), "kernel epoll")
}

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{{"-mib", "0"}, {"-mib", "x"}, {"-ring", "dpdk"}, {"uring"}} {
		_, err := parse(args)
		require.Error(t, err, args)
	}
}
