package ring

import (
	"errors"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// Close ends the socket in good order: what was handed to Send and SendPacket before still goes out, then FIN. Packets that
// were not delivered yet are released; those the application holds stay valid. EventSent of sends under way and at last
// EventClosed follow; then the Socket is spent. A peer that takes nothing is given up after Config.CloseTimeout. With linger 0
// it is Abort. Owner only.
func (s *Socket) Close() error {
	if err := s.mayUse("close"); err != nil {
		return err
	}
	t := s.callTracer() // asked first: the set may be gone when its last socket is closed
	err := s.close()
	if t != nil {
		t.Call(s, "close", "", err)
	}
	return err
}

// close is Close for a caller that is the owner.
func (s *Socket) close() error {
	if s.ring() == nil {
		return s.closeWithoutRing()
	}
	if s.lingerFor() == 0 && s.handle.Kind == KindStream {
		return s.abort()
	}
	dead := s.state == stateDead || s.state == stateConnecting
	s.startClosing()
	switch {
	case dead:
		s.dropSends()
		s.detach()
	case s.active().sending.isBusy(), s.unsent() > 0:
		s.requestFlush()
		s.setTimer(timerClose, s.ring().clock().Add(s.config().CloseTimeout))
	default:
		s.closeAfterSends()
	}
	return nil
}

// closeAfterSends continues Close when all sends are done: with a linger time the write side is closed and the socket waits for the peer's FIN,
// else the driver lets go of it now.
func (s *Socket) closeAfterSends() {
	if d := s.lingerFor(); s.handle.Kind == KindStream && d > 0 && !s.handle.Ended {
		s.activate().lingering = true
		s.shutdownWrite()
		s.stops = 0 // whatever had stopped it: what comes now is thrown away
		if err := s.ring().drv.SetReceiving(s, true); err != nil {
			s.ring().fail(&OpError{Op: "receive", Err: err})
		}
		s.setTimer(timerClose, s.ring().clock().Add(d))
		return
	}
	s.detach()
}

// Abort ends the socket at once: what was not sent is dropped (its EventSent carries ErrClosed), a TCP peer sees a reset.
// EventClosed follows. Owner only.
func (s *Socket) Abort() error {
	switch {
	case !s.readable():
		return traced(s, "abort", "", &OpError{Op: "abort", Err: ErrOwner})
	case s.state >= stateGone:
		return traced(s, "abort", "", &OpError{Op: "abort", Err: ErrClosed})
	case s.ring() == nil:
		return s.Close()
	}
	if err := s.ring().Check(); err != nil { // the ring is closed
		return traced(s, "abort", "", &OpError{Op: "abort", Err: err})
	}
	return traced(s, "abort", "", s.abort())
}

// closeWithoutRing closes a socket that never had a ring: at once, and without an event.
func (s *Socket) closeWithoutRing() error {
	s.state = stateGone
	delete(s.set().withoutRing, s)
	err := errors.Join(s.removeFile(), s.closeConn())
	s.forget()
	return err
}

// Discard is Abort for a socket that the application has not seen, such as one whose set-up failed half way: no completion reports its end.
func (s *Socket) Discard() error {
	if !s.readable() {
		return &OpError{Op: "discard", Err: ErrOwner}
	}
	if s.makerSet() != closedSet {
		s.activate().discarded = true
	}
	return s.Abort()
}

// abort is Abort after its checks: it drops unsent data and makes the transport reset the connection.
func (s *Socket) abort() error {
	if s.state < stateClosing {
		s.startClosing()
	}
	s.activate().reset = true
	s.dropSends()
	s.detach()
	return nil
}

// startClosing is the first step of each way to close a socket: it drops what is not delivered yet, and from here on only SENT and CLOSED are
// delivered.
func (s *Socket) startClosing() {
	a := s.activate()
	a.lastDrops = s.dropsForMonitor()
	s.state = stateClosing
	s.stopTimers()
	a.flags, a.endErr = 0, nil
	s.dropReceived()
	for _, c := range a.withheld {
		s.transport().Refuse(c.conn)
	}
	if err := s.removeFile(); err != nil {
		s.ring().fail(err)
	}
	a.withheld = nil
	a.callback = nil
	s.updateSlowPath()
}

// detach tells the driver, once, that the socket ends. Where an operation still refers to the connection, onDetached follows later.
func (s *Socket) detach() {
	a := s.activate()
	if a.sending.detaching {
		return
	}
	s.countRetransmits()
	a.sending.detaching = true
	a.lingering = false
	s.closeShaper()
	s.setTimer(timerClose, clock.Never)
	if s.ring().drv.Detach(s) {
		s.onDetached()
	}
}

// onDetached continues when no operation of the driver refers to the connection any more: the transport closes it.
func (s *Socket) onDetached() {
	if s.state != stateClosing {
		return
	}
	s.state = stateGone
	if err := s.closeConn(); err != nil {
		s.ring().fail(err)
	}
	s.closeAccount()
	s.ring().wakeListeners()
	s.raiseClosed()
}

// raiseClosed raises CLOSED once the driver has returned the last send. A socket that was discarded gets no event.
func (s *Socket) raiseClosed() {
	if s.state != stateGone || s.active().sending.inflight > 0 {
		return
	}
	if s.active().discarded {
		s.activate().flags = 0
		s.removeFromRing()
	} else {
		s.raise(EventClosed, nil)
	}
}

// CloseWrite sends FIN after all that was handed to Send and SendPacket; reading goes on. Owner only.
func (s *Socket) CloseWrite() error {
	if err := s.usable("close write"); err != nil {
		return err
	}
	return traced(s, "close write", "", s.closeWrite())
}

// closeWrite is CloseWrite for a caller that is the owner.
func (s *Socket) closeWrite() error {
	if s.handle.Kind != KindStream || s.state == stateDead {
		return stateError("close write", s)
	}
	s.closeWriteCalled = true
	if s.state == stateOpen && !s.active().sending.isBusy() {
		s.shutdownWrite()
	}
	return nil
}

// shutdownWrite makes the transport send FIN, once: all that was taken for sending has left.
func (s *Socket) shutdownWrite() {
	if s.active().closeWriteDone {
		return
	}
	s.activate().closeWriteDone = true
	if err := s.transport().CloseWrite(s); err != nil {
		s.ring().fail(&OpError{Op: "shutdown", Addr: s.remote(), Err: err})
	}
}

// closeConn makes the transport close the connection, by FIN or by reset.
func (s *Socket) closeConn() error {
	if err := s.transport().Close(s, s.active().reset); err != nil {
		return &OpError{Op: "close", Err: err}
	}
	return nil
}

// lingerFor is the time that SetLinger has set; negative: none.
func (s *Socket) lingerFor() time.Duration {
	if l := s.active().linger; l.set {
		return l.d
	}
	return -1
}
