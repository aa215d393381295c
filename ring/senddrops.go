package ring

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Reports of datagrams that the kernel dropped while it sent them (Config.ReportDrops). The kernel keeps such a drop to itself, as ip(7) has
// it, unless the socket has IP_RECVERR: then the send fails with ENOBUFS, which is a send without room here. IP_RECVERR has two more
// effects, which are undone: unconnected sockets are told of errors of the network as well (ICMP), and each error waits in a queue that
// keeps the descriptor ready.

// reportDrops asks the kernel for the reports.
func (s *Socket) reportDrops() error {
	if !s.config.ReportDrops || s.handle.Kind != Datagram {
		return nil
	}
	if s.family == unix.AF_INET6 {
		if err := s.setInt("report drops", unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1); err != nil {
			return err
		}
	}
	return s.setInt("report drops", unix.IPPROTO_IP, unix.IP_RECVERR, 1) // of IPv4 destinations of an IPv6 socket too
}

// retrySend looks at the failure of a send. It tells whether the failure is an error of an earlier datagram, of which an unconnected socket
// would not be told otherwise: the kernel tells it once and sends nothing, so the datagram at hand is to be sent again.
func (s *Socket) retrySend(e syscall.Errno) bool {
	if !s.config.ReportDrops || e == unix.EAGAIN || s.handle.Kind != Datagram {
		return false
	}
	s.clearErrors()
	switch e {
	case unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.ENOPROTOOPT, unix.EPROTO, unix.EHOSTDOWN, unix.ENONET, unix.EOPNOTSUPP,
		unix.EACCES:
		return !s.remote.IsValid() // of net/ipv4/icmp.c (icmp_err_convert) and net/ipv6/icmp.c (tab_unreach)
	}
	return false
}

// resend sends a packet again that failed in the driver with an error of an earlier datagram (retrySend), and returns what it ends with. Several
// packets under way can each have met such an error, and an answer of the network may come between two tries.
func (s *Socket) resend(t Transmission, e syscall.Errno) syscall.Errno {
	for range 4 {
		if !s.retrySend(e) || s.handle.Stack || s.state != stateOpen && s.state != stateClosing {
			return e
		}
		if e = s.sendPieces(t.Packet, t.To); e == unix.EAGAIN {
			e = unix.ENOBUFS
		}
		if e == 0 {
			return 0
		}
	}
	return e
}

// hidesError tells whether a failure that was reported for the socket is one that it would not be told of without the reports.
func (s *Socket) hidesError() bool {
	if !s.config.ReportDrops {
		return false
	}
	s.clearErrors()
	return !s.remote.IsValid()
}

// clearErrors empties the error queue. Transmit stamps wait there too, and are taken.
func (s *Socket) clearErrors() {
	const most = 1 << 14 // the kernel bounds the queue by the receive buffer
	if s.ring == nil {
		return
	}
	if s.outlet != nil && s.outlet.stamps != nil {
		s.ring.takeStamps(s, s.outlet.stamps)
		return
	}
	for range most {
		if _, _, e := s.ring.errors.Next(s.handle.FD); e != 0 {
			return
		}
	}
}
