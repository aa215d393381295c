package epoll

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/sys"
)

// Arm makes FD readable on the next fact, Wake and the deadline, or reports that facts are waiting. It asks epoll itself: that saves
// the caller a wait which would end at once. It also removes entries that are not ready any more from the kernel's ready list, so that a
// caller that waits for an edge of FD sees the next one.
func (d *driver) Arm(deadline, now clock.Time) (pending bool, err error) {
	if pending, err = d.prepareSleep(); pending || err != nil {
		return pending, err
	}
	if deadline == clock.Never {
		d.stopTimer()
	} else if e := d.timer.Start(deadline.Sub(now)); e != 0 {
		return false, fmt.Errorf("epoll: set deadline: %w", e)
	} else {
		d.timed = true
	}
	n, e := d.epoll.Poll(d.batch)
	if e != 0 && e != unix.EINTR {
		return false, fmt.Errorf("epoll: epoll_wait: %w", e)
	}
	d.noteBatch(n)
	return n > 0, nil
}

// ReturnSpare returns the receiver's buffers.
func (d *driver) ReturnSpare() { d.receiver.ReturnSpare() }

// Disarm: the eventfd and the timer are emptied where their events are handled, on the next turn. That turn asks epoll, because
// after Arm no socket is hot.
func (d *driver) Disarm() {}

// Wait sleeps in epoll itself. What woke it is the next turn's batch. A signal wakes it too.
func (d *driver) Wait(limit time.Duration) error {
	if pending, err := d.prepareSleep(); pending || err != nil {
		return err
	}
	d.stopTimer() // the limit says when; a deadline of an earlier Arm does not count any more
	wait := sys.Epoll.Wait
	if d.usesPpoll {
		wait = sys.Epoll.WaitPpoll
	}
	n, e := wait(d.epoll, d.batch, limit)
	if e != 0 && e != unix.EINTR {
		return fmt.Errorf("epoll: wait: %w", e)
	}
	d.noteBatch(n)
	return nil
}

// Wake makes the epoll descriptor readable until the owner has handled the event. Any goroutine.
func (d *driver) Wake() {
	d.wake.Lock()
	if !d.closed {
		d.eventfd.Signal()
	}
	d.wake.Unlock()
}

// prepareSleep makes the epoll list ready for a sleep: entries are corrected, hot sockets are watched. pending is true when the ring must not
// sleep, because events of the last batch or finished transmissions are still to be reported.
func (d *driver) prepareSleep() (pending bool, err error) {
	if d.next < d.count || len(d.sent) > 0 {
		return true, nil
	}
	if err := d.syncPending(); err != nil {
		return false, err
	}
	if err := d.demoteAll(); err != nil {
		return false, err // no sleep: a socket that epoll does not watch would not wake the ring
	}
	return false, nil
}

// noteBatch notes that epoll has reported n events into the batch.
func (d *driver) noteBatch(n int) {
	d.batchNumber++
	d.next, d.count = 0, n
}

// stopTimer stops the timer descriptor, if Arm started it.
func (d *driver) stopTimer() {
	if d.timed {
		d.timed = false
		_ = d.timer.Stop() // cannot fail: the descriptor is ours and the time is zero
	}
}
