package sys

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TimerFD is a timer of the kernel with a descriptor (timerfd_create(2)), on CLOCK_MONOTONIC and non-blocking: the deadline of a
// sleeping ring.
type TimerFD struct{ fd int }

// NewTimerFD makes a timer that is not running.
func NewTimerFD() (TimerFD, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return TimerFD{-1}, fmt.Errorf("timerfd_create: %w", err)
	}
	return TimerFD{fd}, nil
}

// FD is the descriptor; it is readable once the timer has run out, until it is set again.
func (t TimerFD) FD() int { return t.fd }

// Start lets the timer run out once, after d; not more than 0 counts as one nanosecond. What it was set to before is forgotten.
func (t TimerFD) Start(d time.Duration) syscall.Errno { return t.set(max(d, 1)) }

// Stop stops the timer and makes the descriptor unreadable.
func (t TimerFD) Stop() syscall.Errno { return t.set(0) }

func (t TimerFD) set(d time.Duration) syscall.Errno {
	// struct itimerspec: the interval, 0 for once, then the time to the first expiry, 0 for none.
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	_, _, e := syscall.RawSyscall6(unix.SYS_TIMERFD_SETTIME, uintptr(t.fd), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	return e
}

// Close closes the descriptor.
func (t TimerFD) Close() error { return unix.Close(t.fd) }
