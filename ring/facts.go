package ring

import (
	"net/netip"
	"syscall"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// ended is the peer's FIN.
func (s *Socket) ended() {
	if s.handle.Ended || s.state == stateDead || s.state >= stateGone {
		return
	}
	if s.active().broken != 0 && s.state < stateDead {
		s.failed(s.active().broken)
		return
	}
	s.handle.Ended = true
	s.stop(stopEnded)
	s.setTimer(timerRead, clock.Never) // it has its answer
	if s.state == stateClosing {
		if s.active().lingering {
			s.detach()
		}
		return
	}
	s.raise(eventFin, nil)
}

// failed is an error the kernel reported for the socket.
func (s *Socket) failed(e syscall.Errno) {
	switch {
	case s.state == stateClosing && s.handle.Kind == KindDatagram:
		return // it concerns a datagram that was sent; those that wait are sent all the same
	case s.state == stateClosing:
		// The connection broke while it was being closed: there is nobody to tell and nothing left to wait for.
		if s.active().sending.inflight == 0 || s.active().lingering {
			s.dropSends()
			s.detach()
		}
		return
	case s.state >= stateDead:
		return
	case s.handle.Kind == KindDatagram:
		// An ICMP error concerns one datagram that was sent; the socket lives on.
		if !s.hidesError() {
			s.raise(EventErr, e)
		}
		return
	}
	connecting := s.state == stateConnecting
	s.state = stateDead
	s.stop(stopEnded)
	s.stopTimers()
	if !connecting {
		e = normalise(e)
	}
	s.activate().fatal = e
	s.raise(eventOfError(e, connecting), e)
	s.updateSlowPath()
	s.filesFailed()
}

func (s *Socket) connectTimedOut() {
	if s.state == stateConnecting {
		s.failed(syscall.ETIMEDOUT)
	}
}

// writable answers the driver's NotifyWritable: the send queue has room again.
func (s *Socket) writable() {
	if s.active().shaper != nil && s.active().shaper.blocked {
		s.activate().shaper.blocked = false
		if s.state < stateGone {
			s.dequeueDue()
		}
		return
	}
	if s.fileWritable() {
		return
	}
	if s.state == stateOpen && s.wantOut && !s.active().sending.busy() {
		s.wantOut = false
		s.raise(EventOut, nil)
	}
}

// connected makes a stream what it is when its connection stands.
func (s *Socket) connected(local netip.AddrPort) {
	if s.state != stateConnecting {
		return
	}
	s.state = stateOpen
	s.wantOut = false
	s.setTimer(timerConnect, clock.Never)
	s.setLocal(local)
	s.raise(EventOut, nil)
	s.start(stopEnded)
	if s.active().sending.queued() {
		s.transmit()
	}
	if s.shutWrite {
		s.shutdownWrite()
	}
}
