package testnet

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// EndEarly connects to an IPv4 address and ends the connection at once: n times with FIN, n times with RST, and the same with data
// before.
func EndEarly(t *testing.T, address string, data string, n int) {
	t.Helper()
	for i := range 4 * n {
		c, err := net.Dial("tcp4", address)
		require.NoError(t, err)
		if i&1 != 0 {
			_, err = c.Write([]byte(data))
			require.NoError(t, err)
		}
		if i&2 != 0 {
			require.NoError(t, c.(*net.TCPConn).SetLinger(0))
		}
		require.NoError(t, c.Close())
	}
}

// AllClosed waits until the kernel has no connection of a local IPv4 port of this network namespace that this side has yet to close
// (ESTABLISHED, CLOSE_WAIT), and fails with their states if that does not come.
func AllClosed(t *testing.T, address string) {
	t.Helper()
	at, err := net.ResolveTCPAddr("tcp4", address)
	require.NoError(t, err)
	names := map[string]string{"01": "ESTABLISHED", "08": "CLOSE_WAIT"} // include/net/tcp_states.h
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile("/proc/self/net/tcp")
		require.NoError(t, err)
		left := map[string]int{}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > 3 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", at.Port)) && names[f[3]] != "" {
				left[names[f[3]]]++
			}
		}
		if len(left) == 0 {
			return
		}
		require.True(t, time.Now().Before(end), "connections of %s that are left: %v", address, left)
	}
}
