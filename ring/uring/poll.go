package uring

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// polled is a completion of one of a socket's polls.
func (d *Driver) polled(k *ring.Sink, what code, c *sys.CQE) {
	r := d.record(c)
	if r == nil {
		return
	}
	r.ended(operations[what], c)
	if k != nil && !r.detaching {
		switch what {
		case codeWritable:
			d.writable(k, r, c)
		case codeReset:
			d.watched(k, r, c)
		case codeReadable:
			if r.ready && r.want {
				d.readReady(k, r)
			}
		}
	}
	d.rearmOrDetach(k, r)
}

// writable handles the poll that NotifyWritable and held back sends wait for. The kernel always watches for RDHUP as well: on a
// half-closed connection a one-shot poll fires at once and for nothing. There the poll is made multishot: its first completion
// reports the RDHUP, the next of room.
func (d *Driver) writable(k *ring.Sink, r *record, c *sys.CQE) {
	switch {
	case c.Res == -int32(unix.ECANCELED):
		// Ended after it had fired; armed again below if it was asked for since.
	case c.Res >= 0 && c.Res&(unix.POLLOUT|unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) == 0:
		r.half = true
	default:
		d.cancel(r, opWritable)
		if r.blocked {
			r.blocked = false
			d.submitSends(r)
		}
		if r.notify {
			r.notify = false
			kernel.Writable(k, r.socket)
		}
	}
	d.pollWritable(r)
}

// watched handles the poll for the end of a stream.
//
// A multishot receive loses a reset that arrived together with data: having read the data it believes the kernel's word that the queue is empty
// (tcp_inq_hint, which counts a FIN and not a reset), and waits for a wake-up that came before it read (seen on 6.18). It is cancelled and armed
// again: its first read finds what is left, or the error.
func (d *Driver) watched(k *ring.Sink, r *record, c *sys.CQE) {
	if c.Res >= 0 && c.Res&(unix.POLLERR|unix.POLLHUP) != 0 {
		r.alarm = true
		d.mayBeReset(k, r)
		if r.want && !r.failed && r.ops&^r.cancelled&opReceive != 0 {
			d.cancel(r, opReceive)
		}
		return
	}
	if c.Res >= 0 {
		d.watchReset(r)
	}
}

// mayBeReset reports the end of a stream that is not read. While it is read the receive finds the error itself, after the data
// before it. A socket that was stopped for want of buffers is going to be read again and finds it then: reporting it now would
// throw away what the kernel still has.
func (d *Driver) mayBeReset(k *ring.Sink, r *record) {
	if r.detaching || r.failed || r.want || r.ops&opReceive != 0 {
		return
	}
	if !r.handle.Ended && (r.starved || d.pool.Over(r.handle.Account)) {
		return
	}
	r.alarm = false
	// HUP without an error: both sides have shut down.
	if e := sys.SocketError(int(r.fd)); e != 0 {
		d.fail(k, r, e)
	}
}

// notCancelled is the completion of a cancellation. The operation may have been between two states in which the kernel finds it;
// as long as its last completion has not come it is asked again.
func (d *Driver) notCancelled(what code, c *sys.CQE) {
	e := syscall.Errno(-c.Res)
	if e != unix.ENOENT && e != unix.EALREADY {
		return
	}
	if r := d.record(c); r != nil && r.cancelled&operations[what] != 0 {
		d.cancelOnce(r, what)
	}
}
