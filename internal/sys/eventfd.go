package sys

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// EventFD is a kernel counter with a descriptor (eventfd(2)), non-blocking. Other goroutines wake a sleeping ring by it.
type EventFD struct{ fd int }

// NewEventFD makes a counter at zero.
func NewEventFD() (EventFD, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return EventFD{-1}, fmt.Errorf("eventfd: %w", err)
	}
	return EventFD{fd}, nil
}

// FD is the descriptor; it is readable while the counter is not zero.
func (e EventFD) FD() int { return e.fd }

// Signal adds one to the counter, which makes the descriptor readable. Any goroutine, but not after Close: callers ensure that by a lock of
// their own. It panics if the write fails, because a ring that misses its wake-up would sleep for ever.
func (e EventFD) Signal() {
	one := uint64(1)
	_, _, errno := syscall.RawSyscall(unix.SYS_WRITE, uintptr(e.fd), uintptr(unsafe.Pointer(&one)), 8)
	if errno != 0 && errno != unix.EAGAIN { // EAGAIN: the counter is at its maximum, and so readable already
		panic(fmt.Sprintf("sys: EventFD.Signal: descriptor %d: %v", e.fd, errno))
	}
}

// Drain sets the counter back to zero.
func (e EventFD) Drain() {
	var n uint64
	_, _, _ = syscall.RawSyscall(unix.SYS_READ, uintptr(e.fd), uintptr(unsafe.Pointer(&n)), 8)
}

// Close closes the descriptor.
func (e EventFD) Close() error { return unix.Close(e.fd) }
