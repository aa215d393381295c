package uring

import (
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"golang.org/x/sys/unix"
)

// Flush submits the prepared operations, without reaping. Before that it prepares the sends that the submission queue had no room for. Before
// Bind the ring cannot be entered: the first Reap submits them.
func (d *Driver) Flush() error {
	if !d.bound {
		return nil
	}
	d.preparePostponed()
	if d.hasPrepared() {
		return d.enter(0)
	}
	return nil
}

// hasWork reports whether the next Reap has something to do without entering the kernel: then the ring must not sleep.
func (d *Driver) hasWork() bool {
	return !d.bound || len(d.finished) > 0 || len(d.postponed) > 0 || d.failure != nil || d.u.CQ.Ready() > 0
}

// Arm makes FD readable on the next fact. Before Bind it answers that something is pending: only a Poll can start the ring.
//
// No wake-up is lost: first everything is submitted, then the kernel is told to signal, then Arm checks the completion queue once more. A
// completion that comes later signals.
func (d *Driver) Arm(deadline, now clock.Time) (pending bool, err error) {
	d.slept = true
	if d.hasWork() {
		return true, nil
	}
	d.pollHot()
	d.setTimer(deadline, now)
	if d.hasPrepared() {
		if err := d.enter(0); err != nil {
			return false, err
		}
		if d.hasPrepared() {
			return true, nil // the kernel would not take all of it
		}
	}
	if d.stale {
		d.stale = false
		d.wake.ready.Drain() // a Wake of just now is not lost: its other eventfd has made a completion, which is found below
	}
	d.armed = true
	d.u.CQ.SetFlags(0)
	return d.u.CQ.Ready() > 0 || d.u.SQ.Flags()&(sys.UringSQTaskrun|sys.UringSQOverflow) != 0, nil
}

// ReturnSpare returns the buffers of the direct reading.
func (d *Driver) ReturnSpare() { d.direct.ReturnSpare() }

// Disarm ends what Arm began.
func (d *Driver) Disarm() {
	if !d.armed {
		return
	}
	d.armed = false
	d.u.CQ.SetFlags(sys.UringCQEventFDDisabled)
	d.wake.ready.Drain()
}

// Wait sleeps in io_uring_enter. Operations that the submission queue has no room for are submitted first, without sleeping: the enter that
// sleeps submits one queue only.
func (d *Driver) Wait(limit time.Duration) error {
	d.slept = true
	if d.hasWork() || limit == 0 {
		return d.Flush()
	}
	d.pollHot()
	d.prepareReceives()
	if len(d.backlog) > 0 {
		if err := d.submitAll(0); err != nil {
			return err
		}
		if d.hasWork() || len(d.backlog) > 0 {
			return nil
		}
	}
	return enterError(d.u.EnterWait(limit))
}

// Wake ends a sleep. Any goroutine, at any time.
func (d *Driver) Wake() { d.wake.ring() }

// pollWakeEvent arms a poll of the eventfd that Wake signals, so that Wake ends an io_uring_enter.
func (d *Driver) pollWakeEvent() {
	d.queueOperation(sys.SQE{Opcode: sys.UringOpPollAdd, FD: int32(d.wake.wait.FD()), OpFlags: sys.PollEvents(unix.POLLIN),
		Len: sys.UringPollMultishot, UserData: userData(codeEventfd, 0)})
}

// onWakeEvent handles the completion of that poll.
func (d *Driver) onWakeEvent(c *sys.CQE) {
	d.wake.wait.Drain()
	d.stale = true
	if c.Flags&sys.UringCQEMore == 0 && !d.closing {
		d.pollWakeEvent()
	}
}

// setTimer makes the ring complete something at the deadline. One timeout is under way at most. One that is due earlier stays: it
// wakes the owner for nothing once, and the next Arm sets the right one; so a deadline that moves with each packet costs nothing.
func (d *Driver) setTimer(deadline, now clock.Time) {
	if deadline == clock.Never || d.timerAt <= deadline {
		return
	}
	e := sys.SQE{Opcode: sys.UringOpTimeout, FD: -1, Addr: d.u.Scratch.Timeout(deadline.Sub(now)), Len: 1,
		UserData: userData(codeTimer, 0)}
	if d.timerAt != clock.Never {
		// Should it be firing just now, the update finds nothing and the completion is pending.
		e = sys.SQE{Opcode: sys.UringOpTimeoutRemove, FD: -1, Addr: userData(codeTimer, 0), Off: e.Addr,
			OpFlags: sys.UringTimeoutUpdate, UserData: userData(codeIgnore, 0)}
	}
	d.timerAt = deadline
	d.queueOperation(e)
}

// onTimeout handles the completion of the timeout: none is under way.
func (d *Driver) onTimeout() { d.timerAt = clock.Never }
