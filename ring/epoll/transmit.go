package epoll

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// result is a transmission that is done, or failed with e.
type result struct {
	s *ring.Socket
	t ring.Transmission
	e syscall.Errno
}

// outgoing is what a sendmsg needs, kept so that sending allocates nothing.
type outgoing struct {
	message sys.Message
	to      sys.Sockaddr
	pieces  [sys.MaxVector][]byte
}

// Transmit sends at once: the kernel copies, so waiting for a batch would gain nothing. Of one socket one transmission is under way
// at a time; when the kernel's queue is full it waits for EPOLLOUT, and what comes behind it waits with the core. A datagram may
// consist of up to 64 buffers that are not empty (EMSGSIZE beyond), a piece of stream of any number.
func (d *driver) Transmit(s *ring.Socket) error {
	r := d.table.of(s)
	if r == nil {
		return notAttached("transmit", s)
	}
	if r.sending {
		return nil
	}
	d.sendQueued(r)
	if !r.sending {
		return nil
	}
	if e := d.sync(r); e != 0 { // nothing would tell when the kernel takes more: what was taken ends with the error
		if r.kind == ring.KindStream && r.sendError == 0 {
			r.sendError = e
		}
		d.failSends(r, e)
	}
	return nil
}

// sendQueued sends the socket's current transmission and those that wait behind it, as far as the kernel takes them. A stream whose send fails
// is at its end: all its transmissions fail.
func (d *driver) sendQueued(r *record) {
	for {
		if !r.sending {
			t, ok := ring.TakeTransmission(r.s)
			if !ok {
				return
			}
			r.current, r.rest, r.off, r.sending = t, t.Packet.Buffer(), 0, true
		}
		var e syscall.Errno
		if r.kind == ring.KindStream {
			e = d.sendStream(r)
		} else {
			e = d.sendDatagram(r)
		}
		switch {
		case e == unix.EAGAIN:
			return
		case e != 0 && r.kind == ring.KindStream:
			// The kernel reports the error once, here; what was received before it is still to be read, see reportSent.
			if r.sendError == 0 {
				r.sendError = e
			}
			d.failSends(r, e)
			return
		}
		d.finishSend(r, e)
	}
}

// sendStream sends what is left of the current transmission; EAGAIN when the kernel's queue is full before the end.
func (d *driver) sendStream(r *record) syscall.Errno {
	for {
		pieces, want := d.collectPieces(r)
		if want == 0 {
			return 0
		}
		n, e := d.sendmsg(r, pieces, nil)
		if e != 0 {
			return e
		}
		r.advance(n)
		if n < want {
			return unix.EAGAIN
		}
	}
}

// sendDatagram sends the current transmission as one datagram.
func (d *driver) sendDatagram(r *record) syscall.Errno {
	var to *sys.Sockaddr
	if a := r.current.To; a.IsValid() {
		// The family is the address's own: an IPv6 socket takes IPv4 addresses as they are (net/ipv6/udp.c, udpv6_sendmsg).
		if err := d.out.to.Set(a, sys.Family(a.Addr())); err != nil {
			return errnoOf(err)
		}
		to = &d.out.to
	}
	pieces, n := d.collectPieces(r)
	if n < r.current.Packet.Len() {
		return unix.EMSGSIZE
	}
	_, e := d.sendmsg(r, pieces, to)
	return e
}

// sendmsg is sendmsg(2), repeated when a signal interrupts it.
func (d *driver) sendmsg(r *record, pieces [][]byte, to *sys.Sockaddr) (n int, e syscall.Errno) {
	for {
		if n, e = d.out.message.Sendv(int(r.fd), pieces, to); e != unix.EINTR {
			return n, e
		}
	}
}

// collectPieces lists the pieces not sent yet, as many as one message carries, and their length.
func (d *driver) collectPieces(r *record) (pieces [][]byte, total int) {
	n, off := 0, r.off
	for b, ok := r.rest, true; ok && n < len(d.out.pieces); b, ok = b.Next() {
		if piece := b.Bytes()[off:]; len(piece) > 0 {
			d.out.pieces[n] = piece
			total += len(piece)
			n++
		}
		off = 0
	}
	return d.out.pieces[:n], total
}

// advance moves on by n bytes that were sent.
func (r *record) advance(n int) {
	for {
		left := len(r.rest.Bytes()) - r.off
		if n < left {
			r.off += n
			return
		}
		n -= left
		next, ok := r.rest.Next()
		if !ok {
			r.off += left
			return
		}
		r.rest, r.off = next, 0
	}
}

// finishSend ends the current transmission, with error e if not 0; reportSent reports it.
func (d *driver) finishSend(r *record, e syscall.Errno) {
	if e == unix.EPIPE {
		e = unix.ECONNRESET // as Socket.Send has it: we did not close, so the peer did
	}
	d.sent = append(d.sent, result{r.s, r.current, e})
	r.current, r.sending = ring.Transmission{}, false
}

// failSends ends the current transmission and all that wait behind it with the error that ended the connection.
func (d *driver) failSends(r *record, e syscall.Errno) {
	for {
		if !r.sending {
			t, ok := ring.TakeTransmission(r.s)
			if !ok {
				return
			}
			r.current, r.sending = t, true
		}
		d.finishSend(r, e)
	}
}

// reportSent reports the transmissions that have ended. The list may grow meanwhile: a report can close a socket, whose transmissions then end
// too.
func (d *driver) reportSent(k *ring.Sink) {
	for i := 0; i < len(d.sent); i++ {
		x := d.sent[i]
		d.sent[i] = result{}
		k.Sent(x.s, x.t, x.e)
		if x.e == 0 {
			continue
		}
		// A stream whose send failed is at its end, and the kernel has no error left to show for it: epoll may report nothing. What was
		// received before is read now, as after a hang-up, and then sendError is reported.
		if r := d.table.of(x.s); r != nil && r.sendError != 0 && !r.failed {
			d.handleEvents(k, r, unix.EPOLLHUP)
		}
	}
	d.sent = d.sent[:0]
}

// errnoOf is the errno that an error wraps, EINVAL if it wraps none.
func errnoOf(err error) syscall.Errno {
	var e syscall.Errno
	if errors.As(err, &e) {
		return e
	}
	return unix.EINVAL
}
