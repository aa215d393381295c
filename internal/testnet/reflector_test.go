package testnet

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A host reaches its own server over the wire: both ends are its kernel's, and see the far address as their peer.
func TestReflect(t *testing.T) {
	n := New(t, Pair{})
	far := netip.MustParseAddr("10.0.0.200")
	n.know("v0", far, net.HardwareAddr{2, 0, 0, 0, 0, 7})
	var r io.Closer
	n.InPeer(func() {
		var err error
		r, err = Reflect("p0", far)
		require.NoError(t, err)
	})
	defer r.Close()
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: n.Local(0).AsSlice()})
	require.NoError(t, err)
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	c, err := net.DialTimeout("tcp4", netip.AddrPortFrom(far, uint16(port)).String(), 30*time.Second)
	require.NoError(t, err)
	defer c.Close()
	s, err := l.Accept()
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, far.String(), s.RemoteAddr().(*net.TCPAddr).IP.String())
	require.Equal(t, n.Local(0).String(), c.LocalAddr().(*net.TCPAddr).IP.String())
	const length = 1 << 20
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(make([]byte, length))
		sent <- err
	}()
	_, err = io.ReadFull(s, make([]byte, length))
	require.NoError(t, err)
	require.NoError(t, <-sent)
}
