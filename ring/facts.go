package ring

import (
	"net/netip"
	"syscall"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// onEndOfStream is the driver's fact that the peer's FIN was received: reading ends, and IN|RDHUP is raised. After a send that failed with the
// connection's end the kernel reports that end as a FIN; it is reported as the failure. A socket that lingers is closed by it.
func (s *Socket) onEndOfStream() {
	if s.handle.Ended || s.state == stateDead || s.state >= stateGone {
		return
	}
	if s.active().sendError != 0 && s.state < stateDead {
		s.onFailed(s.active().sendError)
		return
	}
	s.handle.Ended = true
	s.stop(stopEnded)
	s.setTimer(timerRead, clock.Never) // it has its answer
	s.forgetPassed(EventIn)
	if s.state == stateClosing {
		if s.active().lingering {
			s.detach()
		}
		return
	}
	s.raise(eventFin, nil)
}

// onFailed is the driver's fact that the socket has an error. A datagram socket raises ERR and lives on. A stream is dead from here on: the
// event depends on the error, and only Close is left to the application.
func (s *Socket) onFailed(e syscall.Errno) {
	switch {
	case s.state == stateClosing && s.handle.Kind == KindDatagram:
		return // it concerns a datagram that was sent; those that wait are sent all the same
	case s.state == stateClosing:
		// The connection failed while it was being closed: no event reports it, and nothing is left to wait for.
		// With sends under way onSendsDone goes on when the driver has returned them.
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

// onConnectTimeout is called when the time of SetConnectTimeout is over.
func (s *Socket) onConnectTimeout() {
	if s.state == stateConnecting {
		s.onFailed(syscall.ETIMEDOUT)
	}
}

// onWritable is the driver's answer to NotifyWritable: the send queue has room again. What waits for room goes on: paced datagrams (dequeueDue
// raises EventOut itself), a file, or the application, by EventOut.
func (s *Socket) onWritable() {
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
	if s.state == stateOpen && s.wantOut && !s.active().sending.isBusy() { // with sends under way onSendsDone raises it behind the last one
		s.wantOut = false
		s.raise(EventOut, nil)
	}
}

// onConnected is the driver's fact that a stream's connection is established: EventOut is raised, reading starts, and a FIN that CloseWrite
// asked for before is sent. No data can be queued before.
func (s *Socket) onConnected(local netip.AddrPort) {
	if s.state != stateConnecting {
		return
	}
	s.state = stateOpen
	s.wantOut = false
	s.setTimer(timerConnect, clock.Never)
	s.setLocal(local)
	s.raise(EventOut, nil)
	s.start(stopEnded)
	if s.closeWriteCalled {
		s.shutdownWrite()
	}
}
