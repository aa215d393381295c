package uring

import (
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// Reap reports what happened. Completions that are there come first; the kernel is entered when none is left and it has work, or
// something is prepared. So the work of one call is bounded by the sink's room and the completion queue's length.
func (d *Driver) Reap(k *ring.Sink) error {
	d.turn++
	d.reaping = true
	if len(d.finished) > 0 || len(d.postponed) > 0 {
		d.catchUp(k)
	}
	// Directly read sockets and the queue take turns in being first, so that with a short slice neither can keep the other out.
	// After a sleep the queue is first: it tells, among other things, that the polls of the others have fired.
	before := d.numHot > 0 && d.turn&1 == 0 && !d.slept
	d.slept = false
	if before {
		d.readHot(k)
	}
	d.drain(k)
	err := d.issue(k)
	if d.numHot > 0 && !before {
		d.readHot(k)
	}
	d.reaping = false
	if d.failure != nil {
		err, d.failure = d.failure, nil
	}
	return err
}

// issue enters the kernel if there is reason to, and reports what that brought.
func (d *Driver) issue(k *ring.Sink) error {
	if d.u.CQ.Ready() > 0 {
		// No room for what is there. Sends and cancellations must not wait until the application has taken all of it.
		if d.pending() {
			return d.enter(0)
		}
		return nil
	}
	if !d.pending() && d.u.SQ.Flags()&(sys.UringSQTaskrun|sys.UringSQOverflow) == 0 {
		return nil
	}
	if err := d.enter(sys.UringEnterGetEvents); err != nil {
		return err
	}
	d.drain(k)
	return nil
}

// drain handles the completions that are there now, as long as there is room for facts.
func (d *Driver) drain(k *ring.Sink) {
	n := d.u.CQ.Ready()
	if n == 0 {
		return
	}
	for ; n > 0 && k.Room() > 0; n-- {
		c := d.u.CQ.Take()
		d.handle(k, &c)
	}
	d.u.CQ.Publish()
}

// handle turns one completion into facts. With a nil sink, when the driver closes, it only takes back what the kernel had.
func (d *Driver) handle(k *ring.Sink, c *sys.CQE) {
	what := codeOf(c)
	switch {
	case what == codeStream || what == codeDatagram:
		d.received(k, c)
	case what == codeSend:
		d.sent(k, c)
	case what == codeAccept:
		d.accepted(k, c)
	case what <= codeReadable:
		d.polled(k, what, c)
	case what == codeEventfd:
		d.rung(c)
	case what == codeTimer:
		d.timedOut()
	case what&codeCancel != 0:
		d.notCancelled(what&^codeCancel, c)
	}
}

// ended notes the last completion of an operation.
func (r *record) ended(op operation, c *sys.CQE) bool {
	if c.Flags&sys.UringCQEMore != 0 {
		return false
	}
	r.ops &^= op
	r.cancelled &^= op
	return true
}
