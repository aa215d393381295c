package ring

import "syscall"

// Reports of datagrams that the transport dropped while it sent them (Config.ReportDrops): the send fails with ENOBUFS, which is a send without
// room here. Asking the kernel for them has two more effects, which are undone: unconnected sockets are notified of errors of the network
// as well (ICMP), and each error waits in a queue of reports.

// reportsDrops reports whether the socket's transport reports drops. A stack of the library does not, nor does what sends below it for its
// sockets (DropReporter).
func (s *Socket) reportsDrops() bool {
	return s.config().ReportDrops && s.handle.Kind == KindDatagram && s.stack() == nil
}

// retrySend reports whether a send that failed with e is to be made again. The kernel reports an ICMP error of an earlier datagram, of which an
// unconnected socket learns only because ReportDrops is set, as the failure of the next send, and sends nothing.
func (s *Socket) retrySend(e syscall.Errno) bool {
	if !s.reportsDrops() || e == syscall.EAGAIN {
		return false
	}
	s.clearErrors()
	return !s.isConnected() && s.isEarlierError(e)
}

// isEarlierError reports whether a send that failed with e can have failed for what the network has answered to an earlier datagram.
func (s *Socket) isEarlierError(e syscall.Errno) bool {
	queue, ok := s.transport().(SendReporter)
	return ok && queue.IsEarlierError(e)
}

// mostRetries bounds how often one send is made again: an answer of the network may come between two tries.
const mostRetries = 4

// resend sends a packet again that failed in the driver with an error of an earlier datagram (retrySend), and returns what it ends with. Several
// packets under way can each have met such an error.
func (s *Socket) resend(t Transmission, e syscall.Errno) syscall.Errno {
	for range mostRetries {
		if !s.retrySend(e) || s.state != stateOpen && s.state != stateClosing {
			return e
		}
		if e = s.sendPieces(t.Packet, t.To); e == syscall.EAGAIN {
			e = syscall.ENOBUFS // the packet is completed by this call: it cannot wait for room again
		}
		if e == 0 {
			return 0
		}
	}
	return e
}

// hidesError reports whether a failure that was reported for the socket is one that it would not be notified of without the reports.
func (s *Socket) hidesError() bool {
	if !s.reportsDrops() {
		return false
	}
	s.clearErrors()
	return !s.isConnected()
}

// clearErrors empties the error queue. Transmit stamps wait there too, and are taken. An error that is left in the queue would become the
// failure of the next send: the kernel makes it that when what stands before it is read.
func (s *Socket) clearErrors() {
	const most = 1 << 14 // a transport bounds the queue by the receive buffer
	if s.ring() == nil {
		return
	}
	if s.active().shaper != nil && s.active().shaper.timestamps != nil {
		for range most / stampBatch {
			if !s.ring().takeStamps(s, s.active().shaper.timestamps) {
				return
			}
		}
		return
	}
	queue, ok := s.transport().(SendReporter)
	if !ok {
		return
	}
	for range most {
		if _, _, e := queue.NextReport(s); e != 0 {
			return
		}
	}
}
