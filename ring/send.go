package ring

import (
	"net/netip"
	"syscall"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
)

// Ways to send. On a socket over a stack of the library all end in the send queue, see stack.go, but for datagrams whose destination is ready:
// those go to the driver at once (Stack.SendFast). A paced or numbered socket has a way of its own, see shaper.go. On the others there are two.
// Send, SendTo and SendVector copy into the transport's queue at once. SendPacket hands over a buffer and says when it is free again. Both keep
// the order on a stream: while a packet waits, Send takes nothing.
//
// Each checks first that the owner calls it, which takes a nanosecond: two goroutines that send at once would mix each other's addresses.

// Send copies b to the connected peer. On a stream it may take less than all of b, or nothing: then the error is ErrWouldBlock and
// EventOut follows when there is room. A datagram goes whole or not at all. On an offloaded ring it leaves with the next Poll or
// Flush; what a receive callback sends leaves in the turn of the callback. It does not allocate. Owner only.
func (s *Socket) Send(b []byte) (int, error) {
	r := s.ring()
	if r == nil || !r.isOwner() {
		return 0, s.refuseSend("send")
	}
	set := s.makerSet()
	a := set.actives[s.activeIndex]
	if s.state != stateOpen || s.closeWriteCalled || s.handle.Kind == KindStream && a.sending.isBusy() {
		return 0, s.cannotSend("send")
	}
	return s.sendDirect(r, a, &set.transports[s.via], b, netip.AddrPort{})
}

// sendDirect is Send and SendTo after their checks: the transport's send, or the shaper's on a paced kernel socket. r is the socket's ring, a
// its active state, c its transport.
func (s *Socket) sendDirect(r *Ring, a *activeState, c *transportEntry, b []byte, to netip.AddrPort) (int, error) {
	if a.shaper != nil && c.stack == nil { // with a stack the driver takes what the shaper has granted
		n, err := s.sendShaped(b, nil, len(b), to)
		if r.tracing != TraceOff {
			s.traceSend(r, "send", b, nil, to, n, err)
		}
		return n, err
	}
	n, e := c.transport.Send(s, sys.NoEscape(b), to)
	if e == 0 && n == len(b) && r.tracing == TraceOff { // the usual case of finishDirectSend, without the call
		r.stats.SentMessages++
		r.stats.SentBytes += uint64(n)
		s.countSent(r, 1, n)
		return n, nil
	}
	for tries := 0; e != 0 && tries < mostRetries && s.retrySend(e); tries++ { // e was an earlier datagram's error
		n, e = s.transport().Send(s, sys.NoEscape(b), to)
	}
	n, err := s.finishDirectSend(n, len(b), e, to)
	if r.tracing != TraceOff {
		s.traceSend(r, "send", b, nil, to, n, err)
	}
	return n, err
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
		if err := s.bindAnywhere(); err != nil {
			return 0, err
		}
		r = s.ring()
	}
	if err := s.checkDestination("send to", to); err != nil {
		return 0, err
	}
	if s.state != stateOpen {
		return 0, s.cannotSend("send to")
	}
	set := s.makerSet()
	return s.sendDirect(r, set.actives[s.activeIndex], &set.transports[s.via], b, to)
}

// bindAnywhere binds a socket that has no address to a port of the kernel's choice, and gives it its ring: its first send to an address does so.
func (s *Socket) bindAnywhere() error {
	return s.Bind(netip.AddrPortFrom(unspecified(s.family), 0))
}

// bindToSend is what a send to an address does where the socket has no ring, or the caller is not its owner: it binds a datagram socket, and is
// an error for all others.
func (s *Socket) bindToSend(op string, to netip.AddrPort) error {
	if err := s.mayUse(op); err != nil || s.ring() != nil || s.handle.Kind != KindDatagram || !to.IsValid() || s.state >= stateDead {
		return s.refuseSend(op)
	}
	return s.bindAnywhere()
}

// checkDestination is the error of a datagram to an address that cannot be one.
func (s *Socket) checkDestination(op string, to netip.AddrPort) error {
	if err := s.checkAddress(to); err != nil {
		return &OpError{Op: op, Addr: to, Err: err}
	}
	if to.Port() == 0 {
		return &OpError{Op: op, Addr: to, Err: syscall.EINVAL}
	}
	return nil
}

// SendVector sends the pieces of bufs one after the other, as one datagram or as part of the stream; at most MaxVector (64)
// of them, more is an error. Otherwise as Send; to is for datagram sockets and zero on connected ones.
func (s *Socket) SendVector(bufs [][]byte, to netip.AddrPort) (int, error) {
	if r := s.ring(); r == nil || !r.isOwner() {
		if err := s.bindToSend("send vector", to); err != nil {
			return 0, err
		}
	}
	if to.IsValid() && s.handle.Kind != KindDatagram {
		return 0, badArgument("send vector", "destination", to)
	}
	if len(bufs) > MaxVector {
		return 0, badArgument("send vector", "number of pieces", len(bufs))
	}
	if s.active().sending.isBusy() && s.handle.Kind == KindStream || s.state != stateOpen || s.closeWriteCalled {
		return 0, s.cannotSend("send vector")
	}
	total := 0
	for _, b := range bufs {
		total += len(b)
	}
	if to.IsValid() {
		if err := s.checkDestination("send vector", to); err != nil {
			return 0, err
		}
	}
	// A copy, so that the caller's slice of pieces may lie on its stack: what is passed to a method of an interface may not.
	r := s.ring()
	pieces := r.vector[:copy(r.vector[:], bufs)]
	defer clear(pieces)
	n, err := s.sendVector(pieces, total, to)
	if r.tracing != TraceOff {
		s.traceSend(r, "send vector", nil, pieces, to, n, err)
	}
	return n, err
}

// sendVector is SendVector after its checks; total is the length of all pieces.
func (s *Socket) sendVector(pieces [][]byte, total int, to netip.AddrPort) (int, error) {
	if s.active().shaper != nil && s.stack() == nil { // with a stack the driver takes what the shaper has granted
		return s.sendShaped(nil, pieces, total, to)
	}
	n, e := s.transport().SendVector(s, pieces, to)
	for tries := 0; e != 0 && tries < mostRetries && s.retrySend(e); tries++ { // e was an earlier datagram's error
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
		if err := s.bindToSend("send packet", to); err != nil {
			return err
		}
	}
	if s.state != stateOpen || s.closeWriteCalled {
		return s.cannotSend("send packet")
	}
	if to.IsValid() && s.handle.Kind != KindDatagram {
		return badArgument("send packet", "destination", to)
	}
	if s.isQueueFull() {
		return s.tracedRefusal("send packet", to, ErrWouldBlock)
	}
	r := s.ring()
	taken, err := r.pool.Transmit(p)
	if err != nil {
		return s.tracedRefusal("send packet", to, &OpError{Op: "send packet", Addr: to, Err: err})
	}
	if r.tracing != TraceOff {
		s.traceSendPacket(r, taken, to, token) // before the driver has it, which may be done with it when it returns
	}
	q := &s.activate().sending.waiting
	q.push(&s.ring().slab, record{packet: taken, destination: to, token: token})
	if s.active().shaper != nil || q.n > 1 {
		s.onQueued()
		return nil
	}
	if err := s.ring().drv.Transmit(s); err != nil && q.n == 1 { // the driver has not taken the packet: it is the caller's again
		q.pop(&s.ring().slab)
		s.ring().pool.UndoTransmit(p, taken)
		return s.tracedRefusal("send packet", to, &OpError{Op: "send packet", Addr: to, Err: err})
	}
	return nil
}

// transmit makes the driver send what waits on the socket. If the driver refuses, all of it fails: each packet ends with SENT and the error, a
// copy that Send took is counted as lost and reported with EventErr, and a stream is dead, because a piece of it is missing.
func (s *Socket) transmit() {
	failure := s.ring().drv.Transmit(s)
	if failure == nil {
		return
	}
	if !s.active().sending.hasWaiting() {
		s.ring().fail(&OpError{Op: "transmit", Err: failure})
		return
	}
	e := asErrno(failure)
	if s.handle.Kind == KindStream {
		s.onFailed(e)
	}
	for {
		t, ok := s.takeTransmission()
		switch {
		case !ok && s.active().sending.hasWaiting(): // the first is a file, which is not the driver's
			s.fileDone(failure)
		case !ok:
			s.announceLowWater()
			s.onSendsDone()
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
		if sh.granted == 0 {
			return Transmission{}, false
		}
		sh.granted--
	}
	return s.takeTransmission()
}

// takeTransmission takes the first packet off the send queue; false when there is none, or a file is first.
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

// ReturnTransmission puts a transmission that the driver has taken, and could not send yet, before what waits on the socket: TakeTransmission
// gives it again. For drivers. Owner only.
func ReturnTransmission(s *Socket, t Transmission) {
	if !s.readable() || s.ring() == nil {
		return
	}
	a := s.activate()
	rec := a.sending.waiting.addFirst(&s.ring().slab)
	rec.packet, rec.destination, rec.token, rec.route, rec.copied = t.Packet, t.To, t.Token, t.Route, t.Copied
	if !t.Copied {
		a.sending.inflight--
	}
	if a.shaper != nil {
		a.shaper.granted++
	}
}

// onSent is the driver's fact that a transmission is done, or failed with e: its EventSent is queued, and sends that waited for it go on.
func (s *Socket) onSent(t Transmission, e syscall.Errno) {
	s.activate().sending.inflight--
	var err error
	if e != 0 {
		e = s.resend(t, e)
	}
	if e != 0 {
		err = &OpError{Op: "send packet", Addr: t.To, Err: e}
		s.activate().counts.SendErrors++
		if s.handle.Kind == KindStream && s.state == stateOpen && endsConnection(e) {
			s.noteSendBroken(normalise(e))
		}
	} else {
		s.countSends(1, t.Packet.Len())
	}
	s.finishSend(t, err)
	s.announceLowWater()
	if !s.sendFiles() { // else it has called onSendsDone
		s.onSendsDone()
	}
}

// onSendsDone is called when sends were done, and continues what waits for the last of them: CLOSED, Close, CloseWrite, or an EventOut that is
// due.
func (s *Socket) onSendsDone() {
	switch {
	case s.state == stateGone:
		s.raiseClosed()
	case s.state == stateClosing && !s.active().sending.isBusy() && !s.active().sending.detaching:
		s.closeAfterSends()
	case s.state == stateOpen && !s.active().sending.isBusy():
		if s.closeWriteCalled {
			s.shutdownWrite()
		}
		if s.wantOut {
			s.wantOut = false
			s.raise(EventOut, nil)
		}
	}
}

// dropSends fails all sends that the driver has not taken: packets end with SENT and ErrClosed, copies are counted as lost.
func (s *Socket) dropSends() {
	if s.active().shaper != nil {
		s.activate().shaper.granted, s.activate().shaper.firstHeld = 0, 0
		s.ring().paced.remove(s.active().shaper)
	}
	if s.stack() != nil {
		s.ring().stats.LostSends += uint64(s.stack().CancelUnsent(s))
	}
	for {
		t, ok := s.takeTransmission()
		if !ok && s.active().sending.hasWaiting() { // a file is first
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

// finishDirectSend counts a direct send of want bytes, of which the transport took n or which it refused with e, and makes the result that Send
// returns. Where nothing or not all was taken, EventOut follows.
func (s *Socket) finishDirectSend(n, want int, e syscall.Errno, to netip.AddrPort) (int, error) {
	switch {
	case e == 0 && n == want:
		s.countSends(1, n)
		return n, nil
	case e == 0 || e == syscall.EAGAIN || e == syscall.ENOBUFS && s.reportsDrops():
		s.countShortSend()
		s.countSends(0, n)
		if err := s.wouldBlock(); err != nil {
			return n, err
		}
		return n, ErrWouldBlock
	case e == syscall.EALREADY && s.stack() != nil: // the send queue is full: EventOut follows when it has been sent
		s.countShortSend()
		s.wantOut = true
		s.requestFlush()
		return 0, ErrWouldBlock
	case s.handle.Kind == KindStream && endsConnection(e):
		e = normalise(e)
		s.noteSendBroken(e)
	}
	s.activate().counts.SendErrors++
	return 0, &OpError{Op: "send", Addr: to, Err: e}
}

// endsConnection reports whether the error of a send means that the connection has ended.
func endsConnection(e syscall.Errno) bool {
	switch e {
	case syscall.ECONNRESET, syscall.EPIPE, syscall.ETIMEDOUT, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ECONNABORTED:
		return true
	}
	return false
}

// noteSendBroken notes that a send has failed because the connection has ended. The kernel reports each error once: reading will now return the
// data that is still there and then an end of stream, which onEndOfStream reports as the failure e. A suspension ends, so that reading gets
// there; a socket that stopped for want of buffers goes on when it has some.
func (s *Socket) noteSendBroken(e syscall.Errno) {
	s.activate().sendError = e
	if s.handle.Ended || s.stops == stopEnded {
		s.onFailed(e) // nothing is left to read
		return
	}
	if s.stops&stopUser != 0 {
		s.endSuspension()
	}
}

// wouldBlock asks the driver for a Writable fact, once, so that EventOut follows.
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

// cannotSend is the error of a send that the socket's state does not allow; ErrWouldBlock, with EventOut to follow, where it will allow it
// later.
func (s *Socket) cannotSend(op string) error {
	return s.tracedRefusal(op, netip.AddrPort{}, s.whyCannotSend(op))
}

func (s *Socket) whyCannotSend(op string) error {
	switch {
	case s.state >= stateClosing:
		return &OpError{Op: op, Err: ErrClosed}
	case s.closeWriteCalled, s.state == stateNew && s.handle.Kind == KindStream, s.state == stateDead:
		return &OpError{Op: op, Addr: s.remote(), Err: syscall.EPIPE}
	case s.state == stateNew && s.handle.Kind == KindDatagram:
		return &OpError{Op: op, Err: syscall.EDESTADDRREQ}
	case s.state == stateConnecting, s.state == stateOpen && s.active().sending.isBusy():
		s.wantOut = true
		return ErrWouldBlock
	}
	return stateError(op, s)
}

// onQueued is called when a record was put at the end of the send queue: it is sent now, unless others or the pacing are before it.
func (s *Socket) onQueued() {
	switch sh := s.active().shaper; {
	case sh == nil:
		if s.active().sending.waiting.n == 1 {
			s.transmit()
		}
	default:
		if s.stack() != nil && sh.firstHeld == 0 { // the rate has let go all before it
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

// isQueueFull reports whether the send queue is full, and if so makes EventOut follow when there is room: see TransmissionsTaken and Sink.Sent.
func (s *Socket) isQueueFull() bool {
	if !s.isSendQueueFull() {
		return false
	}
	s.wantOut = true
	s.requestFlush()
	return true
}
