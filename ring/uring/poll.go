package uring

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// onPoll handles a completion of one of a socket's polls; what says which. k is nil while the driver closes.
func (d *Driver) onPoll(k *ring.Sink, what code, c *sys.CQE) {
	r := d.record(c)
	if r == nil {
		return
	}
	r.noteCompletion(operations[what], c)
	if k != nil && !r.detaching {
		switch what {
		case codeWritable:
			d.onWritable(k, r, c)
		case codeReset:
			d.onEndPoll(k, r, c)
		case codeReadable:
			// A directly read socket needs nothing here: its poll has ended the sleep, and Reap reads it.
			switch {
			case r.readsByPoll && r.wantsReceive:
				d.readPolled(k, r)
			case r.readsByPoll:
				d.cancel(r, opReadable) // stopped: data that comes must not wake the ring
			}
		}
	}
	d.rearmOrDetach(k, r)
}

// onWritable handles the poll that NotifyWritable and held back sends wait for. The kernel always watches for RDHUP as well: on a
// half-closed connection a one-shot poll fires at once and for nothing. There the poll is made multishot: its first completion
// reports the RDHUP, the next one room.
func (d *Driver) onWritable(k *ring.Sink, r *record, c *sys.CQE) {
	switch {
	case c.Res == -int32(unix.ECANCELED):
		// Ended after it had fired; armed again below if it was asked for since.
	case c.Res >= 0 && c.Res&(unix.POLLOUT|unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) == 0:
		r.peerDone = true
	default:
		d.cancel(r, opWritable) // a multishot one would go on
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

// onEndPoll handles the poll for the end of a stream (watchReset).
//
// A multishot receive loses a reset that arrived together with data: having read the data it believes the kernel's word that the queue is empty
// (tcp_inq_hint, which counts a FIN and not a reset), and waits for a wake-up that came before it read (seen on 6.18). It is cancelled and armed
// again: its first read finds what is left, or the error.
func (d *Driver) onEndPoll(k *ring.Sink, r *record, c *sys.CQE) {
	if c.Res >= 0 && c.Res&(unix.POLLERR|unix.POLLHUP) != 0 {
		r.endSeen = true
		d.reportReset(k, r)
		if r.wantsReceive && !r.failed && r.ops&^r.cancelled&opReceive != 0 {
			d.cancel(r, opReceive)
		}
		return
	}
	if c.Res >= 0 {
		d.watchReset(r) // a full completion queue ends a multishot poll without such an event
	}
}

// reportReset reports the end of a stream that is not read, after its poll has seen it. While the stream is read, the receive finds the error
// itself, after the data before it. A socket that was stopped for want of buffers, or by its budget, is read again later and finds it then:
// reporting it now would drop data that the kernel still has. After the peer's FIN there is none.
func (d *Driver) reportReset(k *ring.Sink, r *record) {
	if r.detaching || r.failed || r.wantsReceive || r.ops&opReceive != 0 {
		return
	}
	if !r.handle.Ended && (r.starved || d.pool.Over(r.handle.Account)) {
		return
	}
	r.endSeen = false
	// HUP without an error: both sides have shut down.
	if e := sys.SocketError(int(r.fd)); e != 0 {
		d.fail(k, r, e)
	}
}

// onCancelResult handles the completion of a cancellation that did not find its operation: the operation may have been between two states in
// which the kernel finds it. Until its last completion has come the cancellation is repeated.
func (d *Driver) onCancelResult(what code, c *sys.CQE) {
	e := syscall.Errno(-c.Res)
	if e != unix.ENOENT && e != unix.EALREADY {
		return
	}
	if r := d.record(c); r != nil && r.cancelled&operations[what] != 0 {
		d.cancelOnce(r, what)
	}
}
