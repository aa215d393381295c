package offload_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// A process that may open no more descriptors still accepts connections of the stack, which have none, and serves them. With the kernel's
// sockets the listener waits then (ringtest: "EMFILE with an empty backlog: the listener survives").
func TestAcceptWithoutDescriptors(t *testing.T) {
	m := newMovable(t)
	l := listenTCP(t, m.set, "10.0.0.1:7000")
	const n = 20
	var clients [n]int
	m.InPeer(func() {
		for i := range clients {
			var err error
			clients[i], err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
			require.NoError(t, err)
		}
	})
	defer func() {
		for _, fd := range clients {
			_ = unix.Close(fd)
		}
	}()
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	fd, err := unix.Dup(0) // the lowest that is free
	require.NoError(t, err)
	require.NoError(t, unix.Close(fd))
	none := old
	none.Cur = uint64(fd)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &none))
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old)) }()
	_, err = unix.Dup(0)
	require.ErrorIs(t, err, unix.EMFILE)

	to := &unix.SockaddrInet4{Port: 7000, Addr: [4]byte{10, 0, 0, 1}}
	for _, fd := range clients {
		require.ErrorIs(t, unix.Connect(fd, to), unix.EINPROGRESS)
	}
	accepted, echoed, begun := 0, 0, [n]bool{}
	for end := time.Now().Add(patience); echoed < n; {
		require.True(t, time.Now().Before(end), "%d accepted, %d echoed: %v", accepted, echoed, l.Ring().Stats().Driver)
		k, err := l.Ring().Poll(m.dst)
		require.NoError(t, err)
		for i := range m.dst[:k] {
			c := &m.dst[i]
			if c.Events.Has(ring.EventNewConnection) {
				accepted++
			}
			if c.Events.Has(ring.EventPacket) {
				_, err := c.Socket.Send(c.Packet.Bytes())
				require.NoError(t, err)
				require.NoError(t, c.Packet.Release())
			}
		}
		for i, fd := range clients {
			if !begun[i] {
				_, err := unix.Write(fd, []byte("x"))
				begun[i] = err == nil // ENOTCONN, EAGAIN: not connected yet
			} else if n, _ := unix.Read(fd, make([]byte, 1)); n == 1 {
				echoed++
			}
		}
	}
	require.Equal(t, n, accepted)
	require.Zero(t, l.Stats().AcceptFailures)
}
