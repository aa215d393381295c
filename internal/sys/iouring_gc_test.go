package sys

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// A garbage collection stops the world several times. It does not wait for an io_uring_enter that takes long: the runtime knows that the
// thread is in the kernel. The twin hides its call from the runtime; the world cannot be stopped while it lasts.
func TestEnterDoesNotHoldUpTheRuntime(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	}
	u, err := NewUring(4096, UringParams{})
	if err != nil {
		testnet.Missing(t, "uring", err)
	}
	defer u.Close()
	// Datagrams of 60 KiB to a socket that nobody reads: each is copied, and dropped.
	to, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(to)
	require.NoError(t, unix.Bind(to, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := unix.Getsockname(to)
	require.NoError(t, err)
	from, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(from)
	require.NoError(t, unix.Connect(from, name))
	m, err := mapMemory(60<<10, pageSize)
	require.NoError(t, err)
	defer m.unmap()
	const send = 26 // IORING_OP_SEND
	// stops counts how often the world was stopped, from beginning to end, while enter sent thousands of them.
	stops := func(enter func() syscall.Errno) int {
		for u.CQ.Ready() > 0 {
			u.CQ.Take()
		}
		u.CQ.Publish()
		for range 4000 {
			p, _ := u.SQ.Next()
			require.NotNil(t, p)
			*p = SQE{Opcode: send, FD: int32(from), Addr: uint64(uintptr(m.start)), Len: 60 << 10}
		}
		var inside atomic.Bool
		var over atomic.Bool
		counted := make(chan int)
		go func() {
			n := 0
			var s runtime.MemStats
			for !over.Load() {
				before := inside.Load()
				runtime.ReadMemStats(&s) // stops the world
				if before && inside.Load() {
					n++
				}
			}
			counted <- n
		}()
		inside.Store(true)
		e := enter()
		inside.Store(false)
		over.Store(true)
		require.Zero(t, e)
		return <-counted
	}
	hidden := 3
	for try := 0; try < 30 && hidden >= 3; try++ { // on a busy machine this goroutine may be held up before or after the call
		hidden = stops(func() syscall.Errno {
			u.SQ.publish()
			_, _, e := syscall.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(u.fd), uintptr(u.SQ.Pending()), 0, UringEnterGetEvents, 0, 0)
			u.SQ.consumed()
			return e
		})
	}
	require.Less(t, hidden, 3, "the twin does not hide")
	for _, flags := range []uint32{UringEnterGetEvents, 0} {
		most := 0
		for range 30 { // on a busy machine the other goroutine may not run during a call
			if most = max(most, stops(func() syscall.Errno { return u.Enter(flags) })); most >= 3 {
				break
			}
		}
		require.GreaterOrEqual(t, most, 3, "flags %d: the world was not stopped during a long call", flags)
	}
}
