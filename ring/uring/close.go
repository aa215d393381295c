package uring

import (
	"errors"
	"fmt"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/sys"
)

// closeLimit bounds how long Close waits for the kernel.
const closeLimit = time.Second

// Close ends what is under way and gives everything back: the buffers the kernel could have filled go to the pool, descriptors
// and mappings to the kernel. Transmissions whose memory the kernel still reads after closeLimit (a peer that acknowledges nothing)
// stay out of the pool for good, which the error says: a buffer that is used again too early would send other bytes.
func (d *Driver) Close() error {
	d.closing = true
	var errs []error
	if d.bound {
		errs = append(errs, d.quiesce())
	}
	if n := d.countReceives(); n == 0 {
		for _, g := range d.groups {
			if g != nil {
				errs = append(errs, g.close(d.u, d.pool))
			}
		}
	} else {
		errs = append(errs, fmt.Errorf("uring: close: %d operations still receive after %v: their buffers are lost", n, closeLimit))
	}
	if n := d.releaseSends(); n > 0 {
		errs = append(errs, fmt.Errorf("uring: close: the kernel still sends %d packets after %v: their buffers are lost", n, closeLimit))
	}
	d.direct.Close()
	errs = append(errs, d.u.Close(), d.wake.close())
	leaveShare(d.pool)
	return errors.Join(errs...)
}

// quiesce cancels all operations and waits for their last completions.
func (d *Driver) quiesce() error {
	for _, r := range d.records {
		r.detaching = true
	}
	d.queueOperation(sys.SQE{Opcode: sys.UringOpAsyncCancel, FD: -1, OpFlags: sys.UringCancelAny | sys.UringCancelAll,
		UserData: userData(codeIgnore, 0)})
	if err := d.enter(sys.UringEnterGetEvents); err != nil {
		return err
	}
	for limit := time.Now().Add(closeLimit); ; {
		for d.u.CQ.Ready() > 0 {
			c := d.u.CQ.Take()
			d.handle(nil, &c)
			d.u.CQ.Publish()
		}
		left := time.Until(limit)
		if d.countReceives() == 0 && d.countSends() == 0 || left <= 0 {
			return nil
		}
		if err := enterError(d.u.EnterWait(left)); err != nil {
			return err
		}
	}
}

// countReceives counts the operations that may still write to the pool's buffers. Before Bind none ran.
func (d *Driver) countReceives() (n int) {
	if !d.bound {
		return 0
	}
	for _, r := range d.records {
		if r.ops&opReceive != 0 {
			n++
		}
	}
	return n
}

// countSends counts the transmissions whose memory the kernel may still read.
func (d *Driver) countSends() (n int) {
	for i := range d.sends {
		if t := &d.sends[i]; t.socket != nil && (t.busy || t.notices > 0) {
			n++
		}
	}
	return n
}

// releaseSends releases the packets that the kernel has finished with, and returns how many it has not.
func (d *Driver) releaseSends() int {
	n := d.countSends()
	for i := range d.sends {
		if t := &d.sends[i]; t.socket != nil && !t.busy && t.notices == 0 {
			d.pool.Complete(t.Packet)
			_ = t.Packet.Release()
			*t = send{}
		}
	}
	return n
}
