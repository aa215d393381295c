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
	d.handleCompletions(k)
	err := d.enterIfNeeded(k)
	if d.numHot > 0 && !before {
		d.readHot(k)
	}
	d.reaping = false
	if d.failure != nil {
		err, d.failure = d.failure, nil
	}
	return err
}

// enterIfNeeded enters the kernel if operations are prepared, the kernel has deferred work, or it keeps completions for which the queue had no
// room (UringSQOverflow). It handles the completions that this makes.
func (d *Driver) enterIfNeeded(k *ring.Sink) error {
	if d.u.CQ.Ready() > 0 {
		// The sink has no room for these completions. Sends and cancellations must not wait until the application has taken all of them.
		if d.hasPrepared() {
			return d.enter(0)
		}
		return nil
	}
	if !d.hasPrepared() && d.u.SQ.Flags()&(sys.UringSQTaskrun|sys.UringSQOverflow) == 0 {
		return nil
	}
	if err := d.enter(sys.UringEnterGetEvents); err != nil {
		return err
	}
	d.handleCompletions(k)
	return nil
}

// handleCompletions handles the completions that are there now, as long as the sink has room.
func (d *Driver) handleCompletions(k *ring.Sink) {
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

// handle turns one completion into facts. With a nil sink, when the driver closes, it only returns buffers and counts operations.
func (d *Driver) handle(k *ring.Sink, c *sys.CQE) {
	what := codeOf(c)
	switch {
	case what == codeStream || what == codeDatagram:
		d.onReceive(k, c)
	case what == codeSend:
		d.onSendResult(k, c)
	case what == codeAccept:
		d.onAccept(k, c)
	case what <= codeReadable:
		d.onPoll(k, what, c)
	case what == codeEventfd:
		d.onWakeEvent(c)
	case what == codeTimer:
		d.onTimeout()
	case what&codeCancel != 0:
		d.onCancelResult(what&^codeCancel, c)
	}
}

// noteCompletion reports whether a completion is the last one of an operation, and if so notes that the kernel has the operation no more.
func (r *record) noteCompletion(op operation, c *sys.CQE) bool {
	if c.Flags&sys.UringCQEMore != 0 {
		return false
	}
	r.ops &^= op
	r.cancelled &^= op
	return true
}
