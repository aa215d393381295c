package ring

import (
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// Arm prepares for waiting on FD: it reports that work is pending already (poll again, do not wait), or makes FD readable on the
// next packet, deadline, returned buffer, posted work or Wake. (VMA: ibv_req_notify_cq behind its own blocking calls only.)
func (r *Ring) Arm() (pending bool, err error) {
	if err := r.check(); err != nil {
		return false, err
	}
	if r.prepareSleep() {
		return true, nil
	}
	deadline, now := r.nextDeadline()
	if deadline <= now {
		r.inbox.cancelSleep()
		r.turn |= timerMask // the next Poll looks at the deadlines
		return true, nil
	}
	freed := r.pool.Freed()
	pending, err = r.drv.Arm(deadline, now)
	if err != nil {
		r.inbox.cancelSleep()
		return false, &OpError{Op: "arm", Err: err}
	}
	r.armed = true
	r.offerFreed(freed)
	if pending = pending || IsStarving(r); pending {
		r.disarm()
		return true, nil
	}
	r.beginArmedSleep()
	return false, nil
}

// Wait arms the ring and sleeps until something happens or d is over (negative: no limit). It returns at once when work is
// pending, and may return early for no reason (a signal of the Go scheduler): poll and wait again. It is the cheapest sleep of
// this kind of ring.
func (r *Ring) Wait(d time.Duration) error {
	if err := r.check(); err != nil {
		return err
	}
	if r.prepareSleep() {
		return nil
	}
	deadline, now := r.nextDeadline()
	if deadline != clock.Never {
		if left := deadline.Sub(now); d < 0 || left < d {
			d = max(left, 0)
		}
	}
	r.stats.Sleeps++
	slept := r.beginSleep()
	err := r.drv.Wait(d)
	r.endSleep(slept)
	r.inbox.cancelSleep()
	r.turn |= timerMask // the next Poll looks at the deadlines
	if err != nil {
		return &OpError{Op: "wait", Err: err}
	}
	return nil
}

// Wake ends a Wait or makes FD readable, now or at the next Arm. Any goroutine.
func (r *Ring) Wake() { r.inbox.wake() }

// Post runs f on the ring's owner inside its next Poll, and wakes it for that. Any goroutine; it never blocks. After Close f is
// not run and Post answers ErrClosed.
func (r *Ring) Post(f func()) error {
	if f == nil {
		return badArgument("post", "function", "nil")
	}
	return r.inbox.post(f)
}

// prepareSleep announces that the owner is about to sleep, and reports whether it must not. The announcement comes before the check: a
// goroutine that adds work later sees the announcement and wakes the owner.
func (r *Ring) prepareSleep() (pending bool) {
	if r.inbox.refreshRequested() {
		r.refresh()
	}
	r.inbox.prepareSleep()
	if r.hasCredit() {
		r.takeCredit()
	}
	if r.protocol != nil {
		// Before the check: a socket that waits for room gets EventOut when its queue is sent.
		if err := r.drv.Flush(); err != nil {
			r.fail(&OpError{Op: "flush", Err: err})
		}
	}
	freed := r.pool.Freed()
	r.drv.ReturnSpare()
	r.offerFreed(freed)
	if r.readyHead != nil || r.inbox.waiting() || r.pool.Reclaim() > 0 || len(r.failures) > 0 || IsStarving(r) {
		r.inbox.cancelSleep()
		return true
	}
	return false
}

// disarm ends what Arm began, before the ring is polled again. The next Poll looks at the deadlines.
func (r *Ring) disarm() {
	r.armed = false
	r.inbox.cancelSleep()
	r.drv.Disarm()
	r.endArmedSleep()
	r.stats.Sleeps++
	r.turn |= timerMask
}

// nextDeadline is when the ring must be polled at the latest: for a timer, a paced datagram or a transmit stamp; clock.Never for none. now is
// the clock as it was read, 0 when it was not needed.
func (r *Ring) nextDeadline() (deadline, now clock.Time) {
	deadline = clock.Never
	if r.deadlines.wheel.Len() > 0 {
		if next, ok := r.deadlines.wheel.Next(); ok {
			deadline = next
		}
	}
	if deadline == clock.Never && len(r.paced) == 0 && len(r.timestamping) == 0 {
		return clock.Never, 0
	}
	now = r.clock()
	return min(deadline, r.paceDeadline(now), r.stampDeadline(now)), now
}
