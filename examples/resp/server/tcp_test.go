package server

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// onGnet is the handler on the original gnet.
type onGnet struct {
	*Handler
	booted chan gnet.Engine
}

func (a onGnet) OnBoot(eng gnet.Engine) gnet.Action {
	a.booted <- eng
	return gnet.None
}

func (a onGnet) OnShutdown(gnet.Engine) {}

// serve starts it on a free port.
func serve(t *testing.T) (addr string, h *Handler) {
	t.Helper()
	h = NewHandler(New(Config{}))
	a := onGnet{h, make(chan gnet.Engine, 1)}
	ended := make(chan error, 1)
	go func() { ended <- gnet.Run(a, "tcp://127.0.0.1:0", gnet.WithNumEventLoop(1), gnet.WithTicker(true)) }()
	eng := <-a.booted
	fd, err := eng.Dup()
	require.NoError(t, err)
	sa, err := unix.Getsockname(fd)
	require.NoError(t, err)
	require.NoError(t, unix.Close(fd))
	t.Cleanup(func() {
		require.NoError(t, eng.Stop(context.Background()))
		require.NoError(t, <-ended)
	})
	return (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: sa.(*unix.SockaddrInet4).Port}).String(), h
}

func dial(t *testing.T, addr string) *redisClient {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	return &redisClient{conn, bufio.NewReader(conn)}
}

func TestAConversationOverTCP(t *testing.T) {
	addr, _ := serve(t)
	for name, lines := range conversations {
		c := dial(t, addr)
		require.Equal(t, "+OK\r\n", c.say(t, "flushall"))
		for i, line := range lines {
			require.Equal(t, line[1]+"\r\n", c.say(t, line[0]), "%s, line %d: %s", name, i, line[0])
		}
		if name == "connection" {
			_, err := c.in.ReadByte()
			require.ErrorIs(t, err, io.EOF, "quit ends the connection")
		}
	}
}

// Commands in pieces of every size, with a value larger than any buffer on the way.
func TestPiecesOverTCP(t *testing.T) {
	addr, _ := serve(t)
	c := dial(t, addr)
	for _, b := range []byte("*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n") {
		_, err := c.Write([]byte{b})
		require.NoError(t, err)
		time.Sleep(time.Millisecond)
	}
	require.Equal(t, "$2\r\nhi\r\n", readReply(t, c.in))
	large := strings.Repeat("0123456789abcdef", 1<<18) // 4 MiB
	_, err := c.Write([]byte("*3\r\n$3\r\nSET\r\n$1\r\nl\r\n$4194304\r\n" + large + "\r\nGET l\r\n"))
	require.NoError(t, err)
	require.Equal(t, "+OK\r\n", readReply(t, c.in))
	require.Equal(t, "$4194304\r\n"+large+"\r\n", readReply(t, c.in))
}

// A client that does not speak the protocol is told so and left.
func TestAProtocolErrorOverTCP(t *testing.T) {
	addr, _ := serve(t)
	c := dial(t, addr)
	require.Equal(t, "-ERR Protocol error: invalid multibulk length\r\n", c.say(t, "*x"))
	_, err := c.in.ReadByte()
	require.Error(t, err)
}

// The sweep removes what nobody asks for, on the loop.
func TestTheSweepRunsByItself(t *testing.T) {
	addr, _ := serve(t)
	c := dial(t, addr)
	require.Equal(t, "+OK\r\n", c.say(t, "set a 1 px 50"))
	require.Equal(t, ":1\r\n", c.say(t, "dbsize"))
	require.Eventually(t, func() bool { return c.say(t, "dbsize") == ":0\r\n" }, 5*time.Second, 50*time.Millisecond)
}
