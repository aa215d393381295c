package epoll

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// wantedEvents are the events for which the socket should be in the epoll list; 0: it should not be there.
func (r *record) wantedEvents() uint32 {
	if r.failed {
		return 0
	}
	var w uint32
	if (r.wantsRead || r.broken) && !r.unshared {
		w = r.reads
	}
	if r.notify || r.sending {
		w |= unix.EPOLLOUT
	}
	if w == 0 && !(r.unshared && r.wantsRead) { // an unshared socket is read on every turn, and finds its errors so
		// Errors and hang-ups cannot be masked. Both may last, and FD must not stay readable for them: report them once.
		return unix.EPOLLET
	}
	return w
}

// sync makes the socket's entry in the epoll list what wantedEvents says.
func (d *driver) sync(r *record) syscall.Errno {
	want, op := r.wantedEvents(), unix.EPOLL_CTL_MOD
	switch {
	case want == r.interest:
		return 0
	case r.interest == 0:
		op = unix.EPOLL_CTL_ADD
	case want == 0:
		op = unix.EPOLL_CTL_DEL
	}
	e := d.epoll.Control(op, int(r.fd), want, ring.HandleOf(r.s).Slot, r.gen)
	if e == 0 || op != unix.EPOLL_CTL_ADD {
		r.interest = want // MOD and DEL fail only when the descriptor is gone: once is often enough to say so
	}
	return e
}

// resync is sync inside Reap, which returns the first failure when it is done.
func (d *driver) resync(r *record) {
	if e := d.sync(r); e != 0 && d.failure == nil {
		d.failure = wrap("change interest in", r, e)
	}
}

// deferSync notes that the socket's entry may ask for events that are not wanted any more. It is corrected when such an event is reported, or
// before the ring sleeps: a socket that soon reads again needs no epoll_ctl.
func (d *driver) deferSync(r *record) {
	if r.interest != 0 && !r.inDeferred {
		r.inDeferred = true
		d.deferred = append(d.deferred, ring.HandleOf(r.s).Slot)
	}
}

// syncPending corrects the entries that deferSync has listed.
func (d *driver) syncPending() error {
	var err error
	for _, slot := range d.deferred {
		r := d.table.slot(slot)
		r.inDeferred = false
		if r.s == nil || r.interest == 0 {
			continue // closed since; a socket that came into the slot later has asked for what it wants
		}
		if e := d.sync(r); e != 0 && err == nil {
			err = wrap("change interest in", r, e)
		}
	}
	d.deferred = d.deferred[:0]
	return err
}

// SetReceiving starts or stops reading. Stopping costs nothing by itself.
func (d *driver) SetReceiving(s *ring.Socket, on bool) error {
	r := d.table.of(s)
	switch {
	case r == nil && !on:
		return nil // closed by its callback: there is nothing left to stop
	case r == nil:
		return notAttached("receive", s)
	case !on:
		r.wantsRead = false
		d.deferSync(r)
		return nil
	case r.ended || r.failed:
		return nil // nothing will come
	}
	r.wantsRead, r.held = true, false
	e := d.sync(r)
	if e != 0 {
		r.wantsRead = false
	}
	return wrap("watch", r, e)
}

// NotifyWritable asks for EPOLLOUT until it came once. One in the batch that was fetched before does not count: the socket may have been filled
// since.
func (d *driver) NotifyWritable(s *ring.Socket) error {
	r := d.table.of(s)
	if r == nil {
		return notAttached("notify writable", s)
	}
	r.notify, r.notifyAfter = true, d.batchNumber
	e := d.sync(r)
	if e != 0 {
		r.notify = false
	}
	return wrap("watch", r, e)
}

// stopStarved stops reading a socket for want of a buffer; SetReceiving starts it again.
func (d *driver) stopStarved(r *record) {
	r.wantsRead, r.broken, r.held = false, false, true
	d.deferSync(r)
}

// notAttached is the error of a call for a socket that was not attached, or was detached.
func notAttached(op string, s *ring.Socket) error {
	return fmt.Errorf("epoll: %s: %v socket %d is not attached: %w", op, s.Kind(), s.ID(), unix.EINVAL)
}
