package sys

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Epoll is an interest list of the kernel (epoll(7)). Its descriptor can itself be polled: it is readable while an entry of the
// list is ready.
type Epoll struct{ fd int }

// EpollEvent is struct epoll_event with the 64 bits of user data read as a pair: an index and its generation.
type EpollEvent unix.EpollEvent

// Key is the pair that was given to Control.
func (e *EpollEvent) Key() (slot, gen uint32) { return uint32(e.Fd), uint32(e.Pad) }

// NewEpoll makes an empty list, close-on-exec.
func NewEpoll() (Epoll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return Epoll{-1}, fmt.Errorf("epoll_create1: %w", err)
	}
	return Epoll{fd}, nil
}

// FD is the descriptor of the list.
func (p Epoll) FD() int { return p.fd }

// Control is epoll_ctl(2): op is EPOLL_CTL_ADD, EPOLL_CTL_MOD or EPOLL_CTL_DEL. EPOLLERR and EPOLLHUP are always reported.
func (p Epoll) Control(op, fd int, events, slot, gen uint32) syscall.Errno {
	ev := EpollEvent{Events: events, Fd: int32(slot), Pad: int32(gen)}
	_, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(p.fd), uintptr(op), uintptr(fd), uintptr(unsafe.Pointer(&ev)), 0, 0)
	return e
}

// Poll writes what is ready now into events, of which there must be at least one, and returns how many. It does not wait.
func (p Epoll) Poll(events []EpollEvent) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&events[0])),
		uintptr(len(events)), 0, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}

// Wait sleeps until something is ready or the limit is over (negative: no limit), to the nanosecond (epoll_pwait2, since Linux
// 5.11: ENOSYS before). It is a blocking call to the Go scheduler, so that other goroutines go on. A signal ends it with EINTR.
func (p Epoll) Wait(events []EpollEvent, limit time.Duration) (int, syscall.Errno) {
	var ts *[2]int64 // struct __kernel_timespec
	if limit >= 0 {
		ts = &[2]int64{int64(limit / time.Second), int64(limit % time.Second)}
	}
	n, _, e := syscall.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.fd), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)),
		uintptr(unsafe.Pointer(ts)), 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}

// WaitPpoll is Wait for kernels without epoll_pwait2: ppoll on the list's descriptor, which takes nanoseconds too, then Poll.
func (p Epoll) WaitPpoll(events []EpollEvent, limit time.Duration) (int, syscall.Errno) {
	fd := [1]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
	var ts *[2]int64 // struct __kernel_timespec
	if limit >= 0 {
		ts = &[2]int64{int64(limit / time.Second), int64(limit % time.Second)}
	}
	n, _, e := syscall.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fd)), 1, uintptr(unsafe.Pointer(ts)), 0, 0, 0)
	if e != 0 || n == 0 {
		return 0, e
	}
	return p.Poll(events)
}

// Close closes the list's descriptor; the entries' own descriptors are not touched.
func (p Epoll) Close() error { return unix.Close(p.fd) }
