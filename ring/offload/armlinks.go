package offload

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// The links' descriptors are in the list only for a ring that sleeps now and then. A socket that somebody waits for wakes the list for every
// frame that comes, and looks whether to wake it for every frame that was sent, under locks that both directions share: on AF_XDP in copy
// mode 50 to 250 ns a frame, most with traffic both ways (see docs/performance.md). So a ring that has had disarmAfter frames since it last
// slept, either way, takes them out, and one that goes to sleep without them puts them in again: two system calls for each link, beside
// those of a sleep.

// disarmAfter frames without a sleep tell a ring that spins from one that sleeps between messages.
const disarmAfter = 64

// armLinks puts the links' descriptors into the list before a sleep, if they are not there. On an error none is in it.
func (d *driver) armLinks() error {
	if d.linksArmed {
		return nil
	}
	for i := range d.links {
		fd := d.links[i].Link.FD()
		if fd < 0 {
			continue // a link that is lost
		}
		// EEXIST: it is in the list already, as it should be.
		if e := d.list.Control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN, linkKey+uint32(i), 0); e != 0 && e != unix.EEXIST {
			d.disarmLinks()
			return fmt.Errorf("offload: epoll_ctl: %w", e)
		}
	}
	d.linksArmed = true
	return nil
}

// disarmLinks takes the links' descriptors out of the list.
func (d *driver) disarmLinks() {
	d.linksArmed = false
	for i := range d.links {
		if fd := d.links[i].Link.FD(); fd >= 0 {
			_ = d.list.Control(unix.EPOLL_CTL_DEL, fd, 0, 0, 0) // refused for one that is not there
		}
	}
}

// countFrames counts frames that came or left without a sleep. In virtual time nobody waits on descriptors.
func (d *driver) countFrames(n int) {
	if d.framesAwake += n; d.framesAwake >= disarmAfter && d.config.Sleep == nil {
		d.disarmLinks()
	}
}
