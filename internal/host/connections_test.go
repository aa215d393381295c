package host

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The kernel's connections of a port are listed at both ends, over sockets of IPv4 and of IPv6, half closed too; listeners and those that have
// ended are not.
func TestConnections(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::]:0"} {
		l, err := net.Listen("tcp", at)
		require.NoError(t, err)
		port := uint16(l.Addr().(*net.TCPAddr).Port)
		list, err := Connections(port)
		require.NoError(t, err)
		require.Empty(t, list, "a listener is no connection")
		near, err := net.Dial("tcp4", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port).String())
		require.NoError(t, err)
		c := Connection{Local: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port), Remote: near.LocalAddr().(*net.TCPAddr).AddrPort()}
		list, err = Connections(port)
		require.NoError(t, err)
		require.Equal(t, []Connection{c}, list, "it need not be accepted")
		all, err := Connections(0)
		require.NoError(t, err)
		require.Subset(t, all, []Connection{c, {Local: c.Remote, Remote: c.Local}})
		far, err := l.Accept()
		require.NoError(t, err)
		require.NoError(t, near.(*net.TCPConn).CloseWrite())
		list, err = Connections(port)
		require.NoError(t, err)
		require.Equal(t, []Connection{c}, list)
		require.NoError(t, near.Close())
		require.NoError(t, far.Close())
		require.Eventually(t, func() bool {
			list, err := Connections(port)
			return err == nil && !slices.Contains(list, c)
		}, 10*time.Second, time.Millisecond)
		require.NoError(t, l.Close())
	}
}

// A message that is too short is refused.
func TestConnectionMessage(t *testing.T) {
	_, _, err := readConnection(make([]byte, diagMessage-1))
	require.ErrorIs(t, err, unix.EBADMSG)
	b := make([]byte, diagMessage)
	b[0] = unix.AF_INET6
	b[8], b[24] = 0x20, 0x20
	_, ok, err := readConnection(b)
	require.NoError(t, err)
	require.False(t, ok, "IPv6")
}
