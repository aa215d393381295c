package sys

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// EventFD is a kernel counter with a descriptor (eventfd(2)), non-blocking: the bell that wakes a resting ring.
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

// Ring adds one to the counter. Any goroutine.
func (e EventFD) Ring() {
	one := uint64(1)
	// EAGAIN means the counter is at its maximum: readable already, which is all that was wanted.
	_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, uintptr(e.fd), uintptr(unsafe.Pointer(&one)), 8)
}

// Drain sets the counter back to zero.
func (e EventFD) Drain() {
	var n uint64
	_, _, _ = syscall.RawSyscall(unix.SYS_READ, uintptr(e.fd), uintptr(unsafe.Pointer(&n)), 8)
}

// Close closes the descriptor.
func (e EventFD) Close() error { return unix.Close(e.fd) }
