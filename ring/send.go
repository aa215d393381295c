package ring

import (
	"net/netip"
	"syscall"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
)

// Ways to send. On a socket over a stack of the library all end in the send queue, see stack.go; a paced or numbered one has a way of its
// own, see shaper.go. On the others there are two. Send, SendTo and SendVector copy into the transport's queue at once. SendPacket hands
// over a buffer and says when it is free again. Both keep the order on a stream: while a packet waits, Send takes nothing.
//
// Each looks first whether it is the owner who calls: a nanosecond, for what two senders at once would make of each other's addresses.

// Send copies b to the connected peer. On a stream it may take less than all of b, or nothing: then the error is ErrWouldBlock and
// EventOut follows when there is room. A datagram goes whole or not at all. On an offloaded ring it leaves with the next Poll or
// Flush. It does not allocate. Owner only.
func (s *Socket) Send(b []byte) (int, error) {
	r := s.ring()
	if r == nil || !r.isOwner() {
		return 0, s.refuseSend("send")
	}
	home := s.home()
	a := home.actives[s.activeIndex]
	if s.state != stateOpen || s.shutWrite || s.handle.Kind == KindStream && a.sending.busy() {
		return 0, s.cannotSend("send")
	}
	return s.sendDirect(r, a, &home.transports[s.via], b, netip.AddrPort{})
}

// sendDirect is the end of Send and SendTo: r is the socket's ring, a its active state, c its transport.
func (s *Socket) sendDirect(r *Ring, a *activeState, c *carrier, b []byte, to netip.AddrPort) (int, error) {
	if a.shaper != nil && c.stack == nil {
		return s.sendShaped(b, nil, len(b), to)
	}
	n, e := c.transport.Send(s, sys.NoEscape(b), to)
	if e == 0 && n == len(b) { // finishDirectSend, of what is usual
		r.stats.SentMessages++
		r.stats.SentBytes += uint64(n)
		s.countSent(1, n)
		return n, nil
	}
	if e != 0 && s.retrySend(e) {
		n, e = s.transport().Send(s, sys.NoEscape(b), to)
	}
	return s.finishDirectSend(n, len(b), e, to)
}

// SendTo copies b to an address as one datagram. Datagram sockets only; otherwise as Send.
func (s *Socket) SendTo(b []byte, to netip.AddrPort) (int, error) {
	r := s.ring()
	if r == nil || !r.isOwner() {
		if err := s.mayUse("send to"); err != nil {
			return 0, err
		}
	}
	if s.handle.Kind != KindDatagram || s.state >= stateDead {
		return 0, s.cannotSend("send to")
	}
	if r == nil {
		// The first send of an unbound socket binds it to a port of the kernel's choice, and gives it its ring.
		if err := s.Bind(netip.AddrPortFrom(unspecified(s.family), 0)); err != nil {
			return 0, err
		}
		r = s.ring()
	}
	if err := s.checkAddress(to); err != nil {
		return 0, &OpError{Op: "send to", Addr: to, Err: err}
	}
	if to.Port() == 0 {
		return 0, &OpError{Op: "send to", Addr: to, Err: syscall.EINVAL}
	}
	if s.state != stateOpen {
		return 0, s.cannotSend("send to")
	}
	home := s.home()
	return s.sendDirect(r, home.actives[s.activeIndex], &home.transports[s.via], b, to)
}

// SendVector sends the pieces of bufs one after the other, as one datagram or as part of the stream; at most MaxVector (64)
// of them, more is an error. Otherwise as Send; to is for datagram sockets and zero on connected ones.
func (s *Socket) SendVector(bufs [][]byte, to netip.AddrPort) (int, error) {
	if r := s.ring(); r == nil || !r.isOwner() {
		return 0, s.refuseSend("send vector")
	}
	if len(bufs) > MaxVector {
		return 0, badArgument("send vector", "number of pieces", len(bufs))
	}
	if s.active().sending.busy() && s.handle.Kind == KindStream || s.state != stateOpen || s.shutWrite {
		return 0, s.cannotSend("send vector")
	}
	total := 0
	for _, b := range bufs {
		total += len(b)
	}
	if to.IsValid() {
		if err := s.checkAddress(to); err != nil {
			return 0, &OpError{Op: "send vector", Addr: to, Err: err}
		}
	}
	// A copy, so that the caller's slice of pieces may lie on its stack: what is passed to a method of an interface may not.
	r := s.ring()
	pieces := r.vector[:copy(r.vector[:], bufs)]
	defer clear(pieces)
	if s.active().shaper != nil && s.stack() == nil {
		return s.sendShaped(nil, pieces, total, to)
	}
	n, e := s.transport().SendVector(s, pieces, to)
	if e != 0 && s.retrySend(e) {
		n, e = s.transport().SendVector(s, pieces, to)
	}
	return s.finishDirectSend(n, total, e, to)
}

// SendPacket hands a packet (one reference to it) over for sending: all of it or, on an error, nothing, and the packet stays the
// caller's. It goes out at the next Poll or Flush, without being copied where CapZeroCopySend says so. EventSent with the token
// follows when the buffer is free again: it is back in the pool by then. On a stream packets keep their order. Owner only.
//
// A packet that was taken and could not be sent ends with EventSent as well: its Err says why. A stream ends with it.
//
// The packet must come from the pool of the socket's ring and must have no other reference.
func (s *Socket) SendPacket(p buffers.Packet, to netip.AddrPort, token uint64) error {
	if r := s.ring(); r == nil || !r.isOwner() {
		return s.refuseSend("send packet")
	}
	if s.state != stateOpen || s.shutWrite {
		return s.cannotSend("send packet")
	}
	if to.IsValid() && s.handle.Kind != KindDatagram {
		return badArgument("send packet", "destination", to)
	}
	if s.isQueueFull() {
		return ErrWouldBlock
	}
	taken, err := s.ring().pool.Transmit(p)
	if err != nil {
		return &OpError{Op: "send packet", Addr: to, Err: err}
	}
	q := &s.activate().sending.waiting
	q.push(&s.ring().slab, record{packet: taken, destination: to, token: token})
	if s.active().shaper != nil || q.n > 1 {
		s.queued()
		return nil
	}
	if err := s.ring().drv.Transmit(s); err != nil && q.n == 1 {
		q.pop(&s.ring().slab)
		s.ring().pool.UndoTransmit(p, taken)
		return &OpError{Op: "send packet", Addr: to, Err: err}
	}
	return nil
}

// transmit makes the driver send what waits. What it refuses to send is not asked for again: each packet ends with SENT and the error, a copy
// that Send took is counted as lost and told with EventErr. A stream that lacks a piece is at its end.
func (s *Socket) transmit() {
	failure := s.ring().drv.Transmit(s)
	if failure == nil {
		return
	}
	if !s.active().sending.queued() {
		s.ring().fail(&OpError{Op: "transmit", Err: failure})
		return
	}
	e := asErrno(failure)
	if s.handle.Kind == KindStream {
		s.failed(e)
	}
	for {
		t, ok := s.takeTransmission()
		switch {
		case !ok && s.active().sending.queued(): // a file is first
			s.fileDone(failure)
		case !ok:
			s.announceLowWater()
			s.drained()
			return
		case t.Copied:
			s.ring().stats.LostSends++
			s.activate().counts.SendErrors++
			s.sendFailed(t.To, e)
			s.dropCopy(t.Packet)
		default:
			s.activate().sending.inflight--
			s.activate().counts.SendErrors++
			s.finishSend(t, &OpError{Op: "send packet", Addr: t.To, Err: failure})
		}
	}
}

// TakeTransmission gives the driver the next packet to send; false when there is none, or none that may leave yet: Transmit follows when
// it may. The driver owns it until Sink.Sent.
func TakeTransmission(s *Socket) (Transmission, bool) {
	if !s.readable() {
		return Transmission{}, false
	}
	if sh := s.active().shaper; sh != nil {
		if sh.released == 0 {
			return Transmission{}, false
		}
		sh.released--
	}
	return s.takeTransmission()
}

func (s *Socket) takeTransmission() (Transmission, bool) {
	q := &s.active().sending.waiting
	if q.n == 0 {
		return Transmission{}, false
	}
	rec := s.ring().slab.at(q.head)
	if rec.file {
		return Transmission{}, false // the core sends it, see sendfile.go
	}
	t := Transmission{Packet: rec.packet, To: rec.destination, Token: rec.token, Route: rec.route, Copied: rec.copied}
	q.pop(&s.ring().slab)
	if !t.Copied {
		s.activate().sending.inflight++
	}
	return t, true
}

// sent takes a transmission back from the driver.
func (s *Socket) sent(t Transmission, e syscall.Errno) {
	s.activate().sending.inflight--
	var err error
	if e != 0 {
		e = s.resend(t, e)
	}
	if e != 0 {
		err = &OpError{Op: "send packet", Addr: t.To, Err: e}
		s.activate().counts.SendErrors++
		if s.handle.Kind == KindStream && s.state == stateOpen && broken(e) {
			s.noteSendBroken(normalise(e))
		}
	} else {
		s.sentNow(1, t.Packet.Len())
	}
	s.finishSend(t, err)
	s.announceLowWater()
	if !s.sendFiles() {
		s.drained()
	}
}

// drained goes on with what waited for sends to be done.
func (s *Socket) drained() {
	switch {
	case s.state == stateGone:
		s.finish()
	case s.state == stateClosing && !s.active().sending.busy() && !s.active().sending.detaching:
		s.flushed()
	case s.state == stateOpen && !s.active().sending.busy():
		if s.shutWrite {
			s.shutdownWrite()
		}
		if s.wantOut {
			s.wantOut = false
			s.raise(EventOut, nil)
		}
	}
}

// dropSends gives up what the driver has not taken yet.
func (s *Socket) dropSends() {
	if s.active().shaper != nil {
		s.activate().shaper.released, s.activate().shaper.firstHeld = 0, 0
		s.ring().paced.remove(s.active().shaper)
	}
	if s.stack() != nil {
		s.ring().stats.LostSends += uint64(s.stack().CancelUnsent(s))
	}
	for {
		t, ok := s.takeTransmission()
		if !ok && s.active().sending.queued() { // a file is first
			s.fileDone(ErrClosed)
			continue
		}
		if !ok {
			return
		}
		if t.Copied {
			s.ring().stats.LostSends++
			s.dropCopy(t.Packet)
			continue
		}
		s.activate().sending.inflight--
		s.finishSend(t, ErrClosed)
	}
}

// finishDirectSend is the end of every direct send.
func (s *Socket) finishDirectSend(n, want int, e syscall.Errno, to netip.AddrPort) (int, error) {
	switch {
	case e == 0 && n == want:
		s.sentNow(1, n)
		return n, nil
	case e == 0 || e == syscall.EAGAIN || e == syscall.ENOBUFS && s.config().ReportDrops:
		s.sentShort()
		s.sentNow(0, n)
		if err := s.wouldBlock(); err != nil {
			return n, err
		}
		return n, ErrWouldBlock
	case e == syscall.EALREADY && s.stack() != nil:
		s.sentShort()
		s.wantOut = true
		s.requestFlush()
		return 0, ErrWouldBlock
	case s.handle.Kind == KindStream && broken(e):
		e = normalise(e)
		s.noteSendBroken(e)
	}
	s.activate().counts.SendErrors++
	return 0, &OpError{Op: "send", Addr: to, Err: e}
}

// broken reports whether the error of a send is the end of the connection.
func broken(e syscall.Errno) bool {
	switch e {
	case syscall.ECONNRESET, syscall.EPIPE, syscall.ETIMEDOUT, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ECONNABORTED:
		return true
	}
	return false
}

// noteSendBroken notes that a send was notified of the connection's end. The kernel tells each error once, so that reading will now see an end
// of stream after the data that is still there; that end is then reported as the failure it is. It ends a suspension; a socket that
// stopped for want of buffers reads on when it has some.
func (s *Socket) noteSendBroken(e syscall.Errno) {
	s.activate().broken = e
	if s.handle.Ended || s.stops == stopEnded {
		s.failed(e) // nothing is left to read
		return
	}
	if s.stops&stopUser != 0 {
		s.endSuspension()
	}
}

func (s *Socket) wouldBlock() error {
	if s.wantOut {
		return nil
	}
	if err := s.ring().drv.NotifyWritable(s); err != nil {
		return &OpError{Op: "notify writable", Err: err}
	}
	s.wantOut = true
	return nil
}

// refuseSend is why a socket without a ring, or of another goroutine, cannot send.
func (s *Socket) refuseSend(op string) error {
	if err := s.mayUse(op); err != nil {
		return err
	}
	return s.cannotSend(op)
}

// cannotSend finds out why.
func (s *Socket) cannotSend(op string) error {
	switch {
	case s.state >= stateClosing:
		return &OpError{Op: op, Err: ErrClosed}
	case s.shutWrite, s.state == stateNew && s.handle.Kind == KindStream, s.state == stateDead:
		return &OpError{Op: op, Addr: s.remote(), Err: syscall.EPIPE}
	case s.state == stateNew && s.handle.Kind == KindDatagram:
		return &OpError{Op: op, Err: syscall.EDESTADDRREQ}
	case s.state == stateConnecting, s.state == stateOpen && s.active().sending.busy():
		s.wantOut = true
		return ErrWouldBlock
	}
	return stateError(op, s)
}

// queued goes on after a record was put at the end of the send queue.
func (s *Socket) queued() {
	switch sh := s.active().shaper; {
	case sh == nil:
		if s.active().sending.waiting.n == 1 {
			s.transmit()
		}
	default:
		if s.stack() != nil && sh.firstHeld == 0 {
			sh.firstHeld = s.active().sending.waiting.tail
		}
		s.dequeueDue()
		if s.stack() != nil && sh.firstHeld != 0 {
			s.ring().stats.Paced++
		}
	}
}

// requestFlush makes the driver come to the socket at its next flush, in which the frames leave: TransmissionsTaken follows.
func (s *Socket) requestFlush() {
	if s.active().sending.waiting.n == 0 && s.unsent() > 0 {
		s.transmit()
	}
}

// isQueueFull is full for a sender, who receives an EventOut when there is room: see TransmissionsTaken and Sink.Sent.
func (s *Socket) isQueueFull() bool {
	if !s.isSendQueueFull() {
		return false
	}
	s.wantOut = true
	s.requestFlush()
	return true
}
