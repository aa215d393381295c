package sys

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// PollSet waits until any of several descriptors is readable (epoll). It is for sleeping, not for each packet.
type PollSet struct {
	fd    int
	self  [1]unix.PollFd // for Wait, as limit: kept here so that a wait allocates nothing
	limit unix.Timespec
}

// NewPollSet makes an empty set.
func NewPollSet() (*PollSet, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create: %w", err)
	}
	return &PollSet{fd: fd, self: [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}}, nil
}

// Add puts a descriptor into the set; it leaves by being closed.
func (p *PollSet) Add(fd int) error {
	if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("epoll_ctl: descriptor %d: %w", fd, err)
	}
	return nil
}

// Wait sleeps until a descriptor is readable, a signal comes, or d is over (negative: no limit); with 0 it does not sleep. It is ppoll on
// the set's own descriptor: unlike epoll_wait it takes nanoseconds, on every kernel.
func (p *PollSet) Wait(d time.Duration) error {
	var limit *unix.Timespec
	if d >= 0 {
		p.limit = unix.NsecToTimespec(int64(d))
		limit = &p.limit
	}
	if _, err := unix.Ppoll(p.self[:], limit, nil); err != nil && err != unix.EINTR {
		return fmt.Errorf("ppoll: %w", err)
	}
	return nil
}

// FD is the set's descriptor: readable while one of its members is.
func (p *PollSet) FD() int { return p.fd }

// Close closes the set.
func (p *PollSet) Close() error { return unix.Close(p.fd) }
