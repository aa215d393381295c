package sys

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Probe walks and sends nothing, whatever the length; its errors are those of a send.
func TestProbe(t *testing.T) {
	peer, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer peer.Close()
	to := peer.LocalAddr().(*net.UDPAddr).AddrPort()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.Equal(t, unix.EDESTADDRREQ, Probe(fd, []byte("x"), nil))
	var a Sockaddr
	require.NoError(t, a.Set(to, unix.AF_INET))
	for _, n := range []int{0, 1, 1472, 1473, 65507} {
		require.Zero(t, Probe(fd, make([]byte, n), &a), n)
	}
	require.Equal(t, unix.EMSGSIZE, Probe(fd, make([]byte, 65536), &a))
	require.Zero(t, Connect(fd, &a))
	require.Zero(t, Probe(fd, []byte("x"), nil))
	_, e := Send(fd, []byte("real"), 0)
	require.Zero(t, e)
	require.NoError(t, peer.SetReadDeadline(time.Now().Add(10*time.Second)))
	b := make([]byte, 8)
	n, err := peer.Read(b)
	require.NoError(t, err)
	require.Equal(t, "real", string(b[:n]))
	require.Zero(t, Connect(fd, &a))
	require.Equal(t, unix.EBADF, Probe(-1, nil, nil))
}
