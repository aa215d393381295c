package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// startUntil starts the program and reads what it prints, up to the line that has the text; lines is what follows.
func startUntil(t *testing.T, cmd *exec.Cmd, text string) (lines *bufio.Reader, said string) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = cmd.Stdout
	require.NoError(t, cmd.Start())
	lines = bufio.NewReader(out)
	for !strings.Contains(said, text) {
		line, err := lines.ReadString('\n')
		require.NoError(t, err, said)
		said += line
	}
	return lines, said
}

// The program on an interface's address, against a kernel peer whose checksums are unfinished: it says by which path, logs the rule
// once, and at its end what it counted.
func TestOffloadedProgram(t *testing.T) {
	n := testnet.New(t, testnet.Pair{})
	at := netip.AddrPortFrom(n.Local(0), 5001)
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	cmd := program(ctx, ownBinary(t), "-ring", "offload", "-listen", at.String()) // in this thread's namespace
	lines, said := startUntil(t, cmd, "\nUDP: ")
	require.Contains(t, said, "listening on "+at.String())
	require.Contains(t, said, "TCP listener: kernel ")
	require.Contains(t, said, "[offload.no_tcp]")
	require.Contains(t, said, "UDP: bypass xdp v0/0 (generic, copy")
	require.Equal(t, 1, strings.Count(said, "checksums=accept-partial"), said)

	const count = 500
	peer := n.Dial(at)
	b := make([]byte, 64)
	for i := range count {
		text := fmt.Sprintf("message %d", i)
		_, err := peer.Write([]byte(text))
		require.NoError(t, err)
		k, err := peer.Read(b)
		require.NoError(t, err)
		require.Equal(t, text, string(b[:k]))
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait(), "%s", rest)
	said = string(rest)
	require.NotContains(t, said, "checksums=")
	require.Contains(t, said, "ring of kind offload counted")
	require.Contains(t, said, fmt.Sprintf("  ring.packets %d\n", count))
	require.Regexp(t, `\n  stack\.partial_sums (49\d|500)\n`, said) // an unfinished sum is right by chance, once in 65,535
	require.Contains(t, said, fmt.Sprintf("  v0.tx_frames %d\n", count))
}

// On loopback the same command serves by the kernel, and says why.
func TestOffloadedProbeOnLoopback(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	out, err := program(ctx, ownBinary(t), "-ring", "offload", "-probe", "300ms").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "[link.loopback]")
	require.Contains(t, string(out), "UDP round trip: ")
	require.NotContains(t, string(out), "counted")
}
