package testnet

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Stamped asks the kernel to stamp what arrives at a socket (SO_TIMESTAMPING, software), and gives it a large receive buffer.
func Stamped(t testing.TB, c *net.UDPConn) {
	t.Helper()
	require.NoError(t, c.SetReadBuffer(8<<20))
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	var failed error
	require.NoError(t, raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPING,
			unix.SOF_TIMESTAMPING_RX_SOFTWARE|unix.SOF_TIMESTAMPING_SOFTWARE)
	}))
	require.NoError(t, failed)
}
