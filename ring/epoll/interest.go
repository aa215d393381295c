package epoll

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// wantedEvents is the entry the record should have in the epoll list.
func (r *record) wantedEvents() uint32 {
	if r.failed {
		return 0
	}
	var w uint32
	if (r.on || r.broken) && !r.unshared {
		w = r.reads
	}
	if r.notify || r.sending {
		w |= unix.EPOLLOUT
	}
	if w == 0 && !(r.unshared && r.on) {
		// Errors and hang-ups cannot be masked. Both may last, and FD must not stay readable for them: report them once.
		return unix.EPOLLET
	}
	return w
}

// sync makes the entry in the epoll list what is wanted.
func (d *driver) sync(r *record) syscall.Errno {
	want, op := r.wantedEvents(), unix.EPOLL_CTL_MOD
	switch {
	case want == r.have:
		return 0
	case r.have == 0:
		op = unix.EPOLL_CTL_ADD
	case want == 0:
		op = unix.EPOLL_CTL_DEL
	}
	e := d.epoll.Control(op, int(r.fd), want, ring.HandleOf(r.s).Slot, r.gen)
	if e == 0 || op != unix.EPOLL_CTL_ADD {
		r.have = want // MOD and DEL fail only when the descriptor is gone: once is often enough to say so
	}
	return e
}

// resync is sync inside Reap, which returns the first failure when it is done.
func (d *driver) resync(r *record) {
	if e := d.sync(r); e != 0 && d.failure == nil {
		d.failure = wrap("change interest in", r, e)
	}
}

// leave notes that the entry may ask for more than is wanted. It is set right when that shows, or before the ring sleeps.
func (d *driver) leave(r *record) {
	if r.have != 0 && !r.listed {
		r.listed = true
		d.lazy = append(d.lazy, ring.HandleOf(r.s).Slot)
	}
}

// syncPending sets right what was left.
func (d *driver) syncPending() error {
	var err error
	for _, slot := range d.lazy {
		r := d.table.slot(slot)
		r.listed = false
		if r.s == nil || r.have == 0 {
			continue // closed since; a socket that came into the slot later has asked for what it wants
		}
		if e := d.sync(r); e != 0 && err == nil {
			err = wrap("change interest in", r, e)
		}
	}
	d.lazy = d.lazy[:0]
	return err
}

// Receive starts or stops reading. Stopping costs nothing by itself.
func (d *driver) Receive(s *ring.Socket, on bool) error {
	r := d.table.of(s)
	switch {
	case r == nil && !on:
		return nil // closed by its callback: there is nothing left to stop
	case r == nil:
		return notAttached("receive", s)
	case !on:
		r.on = false
		d.leave(r)
		return nil
	case r.ended || r.failed:
		return nil // nothing will come
	}
	r.on, r.held = true, false
	e := d.sync(r)
	if e != 0 {
		r.on = false
	}
	return wrap("watch", r, e)
}

// NotifyWritable asks for EPOLLOUT until it came once.
func (d *driver) NotifyWritable(s *ring.Socket) error {
	r := d.table.of(s)
	if r == nil {
		return notAttached("notify writable", s)
	}
	r.notify, r.asked = true, d.fetched
	e := d.sync(r)
	if e != 0 {
		r.notify = false
	}
	return wrap("watch", r, e)
}

// starve notes that reading stopped for want of a buffer.
func (d *driver) starve(r *record) {
	r.on, r.broken, r.held = false, false, true
	d.leave(r)
}

func notAttached(op string, s *ring.Socket) error {
	return fmt.Errorf("epoll: %s: %v socket %d is not attached: %w", op, s.Kind(), s.ID(), unix.EINVAL)
}
