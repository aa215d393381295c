package sys

import (
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// PollSet waits for any of several descriptors to become readable (epoll): a resting place, not a data path.
type PollSet struct {
	fd     int
	events [16]unix.EpollEvent
}

// NewPollSet makes an empty set.
func NewPollSet() (*PollSet, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create: %w", err)
	}
	return &PollSet{fd: fd}, nil
}

// Add puts a descriptor into the set; it leaves by being closed.
func (p *PollSet) Add(fd int) error {
	if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("epoll_ctl: descriptor %d: %w", fd, err)
	}
	return nil
}

// Wait sleeps until a descriptor is readable, a signal comes, or d is over (negative: no limit).
func (p *PollSet) Wait(d time.Duration) error {
	ms := -1
	if d >= 0 {
		ms = int(min(d/time.Millisecond, math.MaxInt32-1)) + 1 // rounded up: a deadline is never slept short
	}
	if _, err := unix.EpollWait(p.fd, p.events[:], ms); err != nil && err != unix.EINTR {
		return fmt.Errorf("epoll_wait: %w", err)
	}
	return nil
}

// FD is the set's descriptor: readable while one of its members is.
func (p *PollSet) FD() int { return p.fd }

// Close closes the set.
func (p *PollSet) Close() error { return unix.Close(p.fd) }
