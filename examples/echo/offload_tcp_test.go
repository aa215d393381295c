package main

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// servingOwnTCP starts the program with TCP by our own stack, and returns once it listens.
func servingOwnTCP(t *testing.T, n *testnet.Net, args ...string) netip.AddrPort {
	t.Helper()
	t.Setenv("SX_OFFLOAD_TCP", "1")
	at := netip.AddrPortFrom(n.Local(0), 5001)
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	cmd := program(ctx, ownBinary(t), append([]string{"-ring", "offload", "-listen", at.String()}, args...)...)
	lines, said := startUntil(t, cmd, "TCP listener: ")
	require.Contains(t, said, "TCP listener: bypass xdp v0/0 (generic, copy")
	rest := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(lines)
		rest <- string(b)
	}()
	t.Cleanup(func() {
		defer cancel()
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		said := <-rest
		require.NoError(t, cmd.Wait(), said)
		require.Contains(t, said, "ring of kind offload counted")
	})
	return at
}

// The program serves TCP by our own stack, by settings alone, to kernel clients: what they send comes back, however large, and ends in order.
func TestProgramOnOwnTCP(t *testing.T) {
	n := testnet.New(t, testnet.Pair{})
	at := servingOwnTCP(t, n)
	const clients, size = 8, 4 << 20
	failed := make(chan error, clients)
	for range clients {
		var c net.Conn
		n.InPeer(func() {
			var err error
			c, err = net.DialTimeout("tcp4", at.String(), patience)
			require.NoError(t, err)
		})
		require.NoError(t, c.SetDeadline(time.Now().Add(2*patience)))
		go func() {
			defer c.Close()
			data, back := make([]byte, size), make([]byte, size)
			_, _ = rand.Read(data)
			go func() {
				_, _ = c.Write(data)
				_ = c.(*net.TCPConn).CloseWrite()
			}()
			_, err := io.ReadFull(c, back)
			if err == nil {
				var end [1]byte
				if _, err = c.Read(end[:]); err == io.EOF {
					err = nil
				}
			}
			if err == nil && string(data) != string(back) {
				err = io.ErrNoProgress
			}
			failed <- err
		}()
	}
	for range clients {
		require.NoError(t, <-failed)
	}
}

// Programs that know nothing of us, on the kernel's side.
func TestSockperfToOwnTCP(t *testing.T) {
	testnet.NeedProgram(t, "sockperf")
	n := testnet.New(t, testnet.Pair{})
	at := servingOwnTCP(t, n, "-reply", "sockperf")
	said := n.RunInPeer(t, "sockperf", "pp", "--tcp", "-i", at.Addr().String(), "-p", "5001", "-t", "1")
	require.Contains(t, said, "# dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0")
}

func TestIperfToOwnTCP(t *testing.T) {
	testnet.NeedProgram(t, "iperf")
	version, _ := exec.Command("iperf", "-v").CombinedOutput()
	if !strings.Contains(string(version), "iperf version 2") {
		testnet.Missing(t, "iperf", "version 2, it is "+string(version))
	}
	n := testnet.New(t, testnet.Pair{})
	at := servingOwnTCP(t, n)
	said := n.RunInPeer(t, "iperf", "-c", at.Addr().String(), "-p", "5001", "-t", "1", "-P", "2")
	require.NotContains(t, said, "failed", said)
	require.Contains(t, said, "Bytes")
}
