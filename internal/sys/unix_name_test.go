package sys

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestUnixNames(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	name, e := UnixPeerName(pair[0])
	require.Zero(t, e)
	require.Empty(t, name)

	for _, want := range []string{"@sys unix name\x00with a nul", filepath.Join(t.TempDir(), "s")} {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		_, e = UnixPeerName(fd)
		require.Equal(t, unix.ENOTCONN, e)
		require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: want}))
		name, e = UnixSockName(fd)
		require.Zero(t, e)
		require.Equal(t, want, name)
		require.NoError(t, unix.Close(fd))
	}
	_, e = UnixSockName(-1)
	require.Equal(t, unix.EBADF, e)
}

func TestParseUnixName(t *testing.T) {
	for in, want := range map[string]string{
		"":                   "",
		"\x01\x00":           "", // the family alone: unnamed
		"\x01\x00/tmp/s\x00": "/tmp/s",
		"\x01\x00/tmp/s":     "/tmp/s", // 108 bytes leave no room for the NUL
		"\x01\x00\x00a\x00":  "@a\x00",
		"\x01\x00\x00":       "@",
	} {
		require.Equal(t, want, ParseUnixName([]byte(in)), "%q", in)
	}
}

func TestPeerTellsWhyThereIsNone(t *testing.T) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer l.Close()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	_, e := Peer(fd)
	require.Equal(t, unix.ENOTCONN, e)
	to := l.Addr().(*net.TCPAddr).AddrPort()
	require.NoError(t, unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}))
	peer, e := Peer(fd)
	require.Zero(t, e)
	require.Equal(t, to, peer)
}

func TestDiscardUnix(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(pair[0])
	sent := 0
	for {
		n, err := unix.Write(pair[1], make([]byte, 10_000))
		if err != nil {
			require.ErrorIs(t, err, unix.EAGAIN)
			break
		}
		sent += n
	}
	n, e := DiscardUnix(pair[0], 8192)
	require.Zero(t, e)
	require.Equal(t, 8192, n)
	n, e = DiscardUnix(pair[0], 1<<20)
	require.Equal(t, unix.EAGAIN, e)
	require.Equal(t, sent-8192, n)
	require.NoError(t, unix.Close(pair[1]))
	n, e = DiscardUnix(pair[0], 1<<20)
	require.Zero(t, e)
	require.Zero(t, n)
}
