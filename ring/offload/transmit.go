package offload

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/transport/stack"
	"github.com/socketxtreme/socketxtreme/udp"
)

// Transmit notes that the socket has something to send. It leaves with the next Reap or Flush, together with all else.
func (d *driver) Transmit(s *ring.Socket) error {
	if d.hasStream(s) {
		return d.transmitStream(s)
	}
	e := d.table.of(s)
	if e == nil {
		return fmt.Errorf("offload: transmit: socket %d is not attached: %w", s.ID(), unix.EINVAL)
	}
	d.sending.add(e)
	return nil
}

// FlushEarlier sends what is queued, in the middle of a turn. The next flush returns its error.
func (d *driver) FlushEarlier() {
	if err := d.Flush(); err != nil {
		d.earlyError = err
	}
}

// FramesRecalled is called when the transport has taken frames back that were not sent.
func (d *driver) FramesRecalled() { d.endEmptyCoalescing() }

// Flush sends what is queued.
func (d *driver) Flush() error {
	d.ip.Refresh()
	return d.flush()
}

// flush makes frames of all that sockets have queued, and has the links send them.
func (d *driver) flush() error {
	d.transport.BeginFlush()
	d.coalescing.flushed()
	d.sending.awaitsBuffers = false
	if len(d.sending.list) > 0 {
		list := d.sending.take()
		for i, e := range list { // makeFrames queues sockets again that have more than the links take
			list[i] = nil
			e.sending = false
			if e.s != nil {
				d.makeFrames(e)
			}
		}
	}
	if d.tcp.streams != nil {
		d.tcp.streams.Output()
	}
	err := d.flushLinks()
	if err == nil {
		err = d.earlyError
	}
	d.earlyError = nil
	return err
}

// makeFrames gives a socket's transmissions to the stack, until the socket has no more, the links' queues are full, or buffers are missing.
func (d *driver) makeFrames(e *entry) {
	s := e.s
	for d.ip.Queued() < stack.QueueLimit {
		t, ok := ring.TakeTransmission(s)
		if !ok {
			ring.TransmissionsTaken(s) // may close the socket
			return
		}
		if !d.transmit(e, t) {
			ring.ReturnTransmission(s, t)
			d.sending.awaitsBuffers = true
			break
		}
	}
	d.sending.add(e) // the rest stays with the socket until the next flush
}

// transmit sends one transmission: through UDP as a frame, or through the shadow where the stack does not carry the socket or only the kernel
// can deliver it. A packet of several buffers is copied into one first. False: it takes more buffers than are free now, and t is as it was.
func (d *driver) transmit(e *entry, t ring.Transmission) bool {
	to := t.To
	if !to.IsValid() {
		to = e.s.RemoteAddr()
	}
	if !e.inStack { // the kernel carries the socket
		d.finishUnsent(e.s, t, d.sendShadow(e, t))
		return true
	}
	a, ok := wire.AddrFrom(to.Addr())
	switch {
	case !to.IsValid():
		d.finishUnsent(e.s, t, unix.EDESTADDRREQ)
		return true
	case !ok:
		d.finishUnsent(e.s, t, unix.EAFNOSUPPORT)
		return true
	}
	p, token := t.Packet, uint64(0)
	if p.NumBuffers() > 1 || p.Headroom() < nic.MaxHeaders { // io_uring fills a stream's buffers from their beginning
		if p, ok = d.linearize(p); !ok {
			d.finishUnsent(e.s, t, unix.ENOBUFS)
			return true
		}
	}
	if !t.Copied { // of a copy that Send made no end is reported: no token
		token = d.flights.add(e.s, t, p)
	}
	verdict, errno := d.udp.SendSlow(d.turn.now, e.id, t.Route, a, to.Port(), p, token)
	if verdict == udp.Queued {
		if t.Copied && p != t.Packet {
			d.flights.freeTransmission(t) // its copy is sent
		}
		return true
	}
	if token != 0 {
		d.flights.remove(token)
	}
	if p != t.Packet {
		d.flights.freeTransmission(ring.Transmission{Packet: p})
	}
	switch verdict {
	case udp.Later:
		return false
	case udp.ViaKernel:
		errno = d.sendShadow(e, t)
	}
	d.finishUnsent(e.s, t, errno)
	return true
}

// linearize copies a packet of several buffers, or without room for headers, into one buffer; false when none is free.
func (d *driver) linearize(p buffers.Packet) (buffers.Packet, bool) {
	n := p.Len()
	c, err := d.pool.Alloc(n)
	if err != nil {
		return p, false
	}
	p.CopyTo(c.Room()[:n])
	if c, err = d.pool.Transmit(c); err != nil {
		return p, false
	}
	d.stats.Gathered++
	return c, true
}

// finishUnsent ends a transmission that did not become a frame of its own: a copy that Send made is released, the others are reported in Reap.
func (d *driver) finishUnsent(s *ring.Socket, t ring.Transmission, e syscall.Errno) {
	if !t.Copied {
		d.flights.fail(s, t, e)
		return
	}
	if e != 0 {
		d.stats.LostSends++
	}
	d.flights.freeTransmission(t)
}

// sendShadow sends by the socket's descriptor what only the kernel can deliver. Frames that are queued leave first, so that the order stays.
func (d *driver) sendShadow(e *entry, t ring.Transmission) (errno syscall.Errno) {
	if d.ip.Queued() > 0 {
		if err := d.flushLinks(); err != nil {
			d.earlyError = err
		}
	}
	b := t.Packet.Bytes()
	if t.Packet.NumBuffers() > 1 {
		b = make([]byte, t.Packet.Len()) // rare, and the kernel copies it anyway
		t.Packet.CopyTo(b)
	}
	switch _, errno = d.below.transport.Send(e.s, b, t.To); errno {
	case 0:
		d.stats.KernelSends++
	case unix.EAGAIN:
		errno = unix.ENOBUFS // the kernel's queue is full: as a datagram that a card could not take
	}
	return errno
}

// flushLinks passes the stack's frames to their links and flushes those that took some.
func (d *driver) flushLinks() (err error) {
	for i := range d.links {
		sent := false
		for !d.links[i].heldBack {
			out := d.ip.Output(i)
			if len(out) == 0 {
				break
			}
			n := min(len(out), ip.MaxBurst)
			took := d.sendFrames(i, out[:n])
			d.ip.Took(i, took)
			sent = sent || took > 0
			d.outstanding = true
			if d.sleep.linksArmed {
				d.sleep.countFrames(took, d.links)
			}
			if took < n {
				break
			}
		}
		if !sent && !d.links[i].flushFailed || d.links[i].heldBack { // nothing is new; a flush that failed is tried again
			continue
		}
		if e := d.flushLink(i); e != nil {
			err = e
		}
	}
	return err
}

// flushLink flushes link i. The loss of an interface is no error beside a kernel: sockets go on through their shadows, and PATH and SENT report
// it, while an error of Poll would end many programs.
func (d *driver) flushLink(i int) error {
	l := d.links[i].Link
	e := l.Flush()
	if e == nil {
		d.links[i].flushFailed = false
		return nil
	}
	if d.below.mirror != nil && errors.Is(e, unix.ENETDOWN) {
		d.holdBack(i)
	}
	if d.links[i].flushFailed { // it was reported when it failed first
		return nil
	}
	d.nics.CheckSoon()
	d.turn.readSoon()
	d.links[i].flushFailed = true // counted once: an interface that is down stays so for many turns
	d.stats.FlushFailures++
	if d.below.mirror != nil && isLoss(e) {
		return nil
	}
	return fmt.Errorf("offload: %s: %w", l.Info().Name, e)
}

// isLoss reports whether a link failed because its interface is down, has no carrier, was deleted, or lost its program.
func isLoss(err error) bool {
	return errors.Is(err, unix.ENETDOWN) || errors.Is(err, unix.ENODEV) || errors.Is(err, link.ErrNoCarrier) || errors.Is(err, link.ErrDetached)
}

// holdBack stops sending by a link whose interface is down, and by those of the same device: frames in its ring would leave, late, when the
// interface is up again. Its attachment closes the link.
func (d *driver) holdBack(i int) {
	for _, j := range d.nics.LinkFailed(i) {
		d.links[j].heldBack = true
	}
}

// complete collects the frames that the links have sent and reports them, and flushes again where a Flush has left frames: the kernel takes as
// many as the interface has room for (EAGAIN, ENOBUFS), and without a new send no other call would ask it.
func (d *driver) complete(k *ring.Sink) (err error) {
	if !d.outstanding {
		return nil
	}
	d.outstanding = false
	for i := range d.links {
		l := d.links[i].Link
		if l.Unsent() == 0 {
			continue
		}
		for {
			n := l.Complete(d.burst.dones[:])
			for j := range d.burst.dones[:n] {
				if d.streamFrame(d.burst.dones[j].Token) {
					continue
				}
				if r, ok := d.flights.endFrame(d.burst.dones[j].Token, d.burst.dones[j].Packet, d.burst.dones[j].Errno, true); ok {
					d.reportSent(k, &r)
				}
			}
			if n < len(d.burst.dones) {
				break
			}
		}
		// What Send put there in this turn was flushed just now: asking again is a comparison. An interface that is down is asked now and then.
		if l.Unsent() > 0 && !d.links[i].heldBack && (!d.links[i].flushFailed || d.turn.hasClockTurn()) {
			if e := d.flushLink(i); e != nil {
				err = e
			}
		}
		d.outstanding = d.outstanding || l.Unsent() > 0
	}
	return err
}
