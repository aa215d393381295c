package netconn

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// A PacketConn over our own stack and a net.Conn over the kernel's, of one network. The server is a process of its own, all of whose
// threads are in the test's namespace: loops open sockets on goroutines of theirs.
func TestOffloadedPacketConn(t *testing.T) {
	if at := os.Getenv("NETCONN_OFFLOADED"); at != "" {
		serveOffloaded(t, at)
		return
	}
	n := testnet.New(t, testnet.Pair{})
	at := netip.AddrPortFrom(n.Local(0), 7070)
	cmd := exec.Command(os.Args[0], "-test.run=^TestOffloadedPacketConn$", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), "NETCONN_OFFLOADED="+at.String())
	stop, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "serving by bypass, kernel\n", line)

	packets := n.Dial(at)
	var stream net.Conn
	n.InPeer(func() {
		stream, err = net.DialTCP("tcp4", nil, net.TCPAddrFromAddrPort(at))
		require.NoError(t, err)
	})
	defer stream.Close()
	require.NoError(t, stream.SetDeadline(time.Now().Add(patience)))
	b := make([]byte, 64)
	for i := range 100 {
		for _, c := range []net.Conn{packets, stream} {
			_, err := c.Write([]byte{byte(i), 'x'})
			require.NoError(t, err)
			k, err := io.ReadAtLeast(c, b, 2)
			require.NoError(t, err)
			require.Equal(t, []byte{byte(i), 'x'}, b[:k])
		}
	}
	require.NoError(t, stop.Close())
	_, _ = io.Copy(io.Discard, lines)
	require.NoError(t, cmd.Wait())
}

// serveOffloaded echoes until its input ends.
func serveOffloaded(t *testing.T, at string) {
	s := conf.Default()
	s.Ring = conf.RingOffload
	e, err := xtreme.New(s)
	require.NoError(t, err)
	n, err := New(e, Config{})
	require.NoError(t, err)
	p, err := n.ListenPacket("udp", at)
	require.NoError(t, err)
	l, err := n.Listen("tcp", at)
	require.NoError(t, err)
	fmt.Printf("serving by %s, %s\n", p.Path().Tier, l.Path().Tier)
	go func() {
		b := make([]byte, 2048)
		for {
			k, from, err := p.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = p.WriteTo(b[:k], from)
		}
	}()
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
	require.NoError(t, p.Close())
	require.NoError(t, l.Close())
	require.NoError(t, n.Close())
	require.NoError(t, e.Close())
}
