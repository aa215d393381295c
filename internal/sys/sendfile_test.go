package sys

import (
	"errors"
	"net"
	"os"
	"os/signal"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A peer that goes away in the middle of a file raises no SIGPIPE, also where the call has sent a part and so reports no error.
func TestSendfileRaisesNoSignal(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGPIPE)
	defer signal.Stop(signals)
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	const size = 64 << 20
	require.NoError(t, file.Truncate(size))
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	partly := 0
	for range 20 {
		peer, err := net.Dial("tcp4", listener.Addr().String())
		require.NoError(t, err)
		conn, err := listener.Accept()
		require.NoError(t, err)
		require.NoError(t, peer.Close())
		raw, err := conn.(*net.TCPConn).SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) {
			for off := int64(0); off < size; {
				n, err := Sendfile(int(fd), int(file.Fd()), &off, size-int(off))
				if err != nil && !errors.Is(err, unix.EAGAIN) {
					require.True(t, errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET), "%v", err)
					return
				}
				partly += min(n, 1)
			}
		}))
		require.NoError(t, conn.Close())
	}
	require.Positive(t, partly, "no call has sent a part")
	select {
	case s := <-signals:
		t.Fatal(s)
	case <-time.After(20 * time.Millisecond):
	}
}
