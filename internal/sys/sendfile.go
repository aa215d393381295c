package sys

import (
	"errors"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sigPipe is the set that holds SIGPIPE alone.
var sigPipe = func() (set unix.Sigset_t) {
	set.Val[0] = 1 << (unix.SIGPIPE - 1)
	return set
}()

// sigsetBytes is the size of the kernel's set of signals.
const sigsetBytes = 8

// Sendfile sends up to n bytes of a file, from offset *off, to a socket, moves *off, and returns how many it sent. Unlike send(2) the call
// cannot be told to raise no SIGPIPE (MSG_NOSIGNAL), so Sendfile blocks the signal for the thread and removes one that became pending: with
// EPIPE, or without an error where the connection ended when a part was sent.
func Sendfile(socket, file int, off *int64, n int) (int, error) {
	runtime.LockOSThread() // the mask is the thread's
	defer runtime.UnlockOSThread()
	var before unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &sigPipe, &before); err != nil {
		return 0, err
	}
	sent, err := unix.Sendfile(socket, file, off, n)
	if errors.Is(err, unix.EPIPE) || err == nil && sent < n {
		discardSigPipe()
	}
	return sent, errors.Join(err, unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil))
}

// discardSigPipe removes a SIGPIPE that is pending for the calling thread, if there is one. It does not wait.
func discardSigPipe() {
	var now unix.Timespec
	for {
		_, _, e := syscall.RawSyscall6(unix.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&sigPipe)), 0, uintptr(unsafe.Pointer(&now)),
			sigsetBytes, 0, 0)
		if e != unix.EINTR {
			return
		}
	}
}
