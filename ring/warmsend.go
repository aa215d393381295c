package ring

import (
	"net/netip"
	"syscall"

	"github.com/socketxtreme/socketxtreme/internal/sys"
)

// The reasons why a send cannot be warmed, or not whole.
var (
	warmStream = Reason{Code: "warm.kernel_tcp",
		Text: "the kernel's streams (TCP, unix-domain) have no send that sends nothing"}
	warmOwnStream = Reason{Code: "warm.own_tcp", Text: "TCP of the library's stack has no send that sends nothing"}
	warmKernel    = Reason{Code: "warm.kernel_path",
		Text: "the kernel walks the system call, the socket and the route (MSG_PROBE); what follows in it (buffer, headers, queue, " +
			"driver) stays cold"}
)

// WarmSendReason says what WarmSend lacks on this socket: the zero Reason when it walks the whole path up to the link; warm.kernel_path
// when the kernel sends and only its first part can be walked; warm.kernel_tcp and warm.own_tcp when WarmSend is refused. It speaks of
// destinations behind a link: the kernel sends what an offloaded socket sends to its own host, or to groups with members there, and
// WarmSend walks that path.
//
// Owner only.
func (s *Socket) WarmSendReason() Reason {
	switch {
	case !s.readable():
		return Reason{}
	case s.handle.Kind != KindDatagram && s.isOffloaded():
		return warmOwnStream
	case s.handle.Kind != KindDatagram:
		return warmStream
	case s.stack() == nil:
		return warmKernel
	}
	return Reason{}
}

// WarmSend walks the path of sending b without sending it, so that code, tables and buffers are in the caches when the real message comes:
// nothing is put on the wire, no identification is used up, no EventOut follows. (VMA: a send with VMA_SND_FLAGS_DUMMY.) to is for
// datagram sockets, and zero for the connected peer.
//
// On an offloaded socket it takes a buffer, copies b, finds route and neighbour, writes the headers, and gives the buffer back.
// Where the kernel sends, it is asked to go as far as the route (MSG_PROBE). WarmSendReason reports which; streams answer ErrNotSupported.
//
// EAGAIN: the path is not warm, and walking it would mean asking for the neighbour (Prepare does that), or there is no buffer or place
// in the queue, as for Send. Each call is counted (Stats.WarmSends, WarmSendsCold). It does not allocate. Owner only.
func (s *Socket) WarmSend(b []byte, to netip.AddrPort) error {
	if err := s.usable("warm"); err != nil {
		return err
	}
	switch {
	case s.handle.Kind != KindDatagram:
		why := s.WarmSendReason()
		return &OpError{Op: "warm", Err: &FeatureError{Feature: why.Text, Code: why.Code}}
	case s.state != stateOpen:
		return s.cannotSend("warm")
	case !to.IsValid():
		to = s.remote()
		if !to.IsValid() {
			return &OpError{Op: "warm", Err: syscall.EDESTADDRREQ}
		}
	}
	e := s.warmSend(b, to)
	switch e {
	case 0:
		s.ring().stats.WarmSends++
		s.activate().counts.WarmSends++
		return nil
	case syscall.EAGAIN:
		s.ring().stats.WarmSendsCold++
		s.activate().counts.WarmSendsCold++
		return errCold
	}
	return &OpError{Op: "warm", Addr: to, Err: e}
}

// errCold is made once: a program that warms in a loop meets it often.
var errCold error = &OpError{Op: "warm: the path is not ready", Err: syscall.EAGAIN}

// warmSend is WarmSend after its checks: it also writes and drops a record of the send queue, which a real send of our stack may need.
func (s *Socket) warmSend(b []byte, to netip.AddrPort) syscall.Errno {
	if s.checkAddress(to) != nil {
		return syscall.EAFNOSUPPORT
	}
	p, ok := s.transport().(Prober)
	switch {
	case to.Port() == 0:
		return syscall.EINVAL
	case len(b) > s.largestPayload():
		return syscall.EMSGSIZE
	case !ok:
		return syscall.EOPNOTSUPP
	case s.stack() != nil && s.isSendQueueFull():
		return syscall.EAGAIN
	case s.stack() != nil && s.active().sending.waiting.n == 0: // the records of queued sends, too
		s.activate().sending.waiting.push(&s.ring().slab, record{destination: to, copied: true})
		s.activate().sending.waiting.pop(&s.ring().slab)
	}
	return p.Probe(s, sys.NoEscape(b), to)
}

// HeaderRoom writes the headers that a datagram to an address has in front of its payload (Ethernet, a VLAN tag, IPv4, UDP) to dst and
// returns their length; fields that differ from packet to packet (lengths, identification, checksums) are zero. A nil dst asks for the
// length; one that is too short is ENOBUFS. to is zero for the connected peer; without one, or while the neighbour is not known, it is
// ENOTCONN. Rings over kernel sockets answer ErrNotSupported: there the kernel makes the headers. So do offloaded sockets for a destination
// that no link carries datagrams to: an address of this host, a group with members here, a destination that a rule leaves to the kernel.
// (VMA: get_socket_network_header.) Owner only.
func (s *Socket) HeaderRoom(dst []byte, to netip.AddrPort) (int, error) {
	if err := s.usable("network header"); err != nil {
		return 0, err
	}
	if !to.IsValid() {
		to = s.remote()
	}
	switch {
	case s.handle.Kind != KindDatagram && s.isOffloaded():
		return 0, &OpError{Op: "network header", Err: &FeatureError{
			Feature: "headers of a connection: they differ from segment to segment", Code: "header.own_tcp"}}
	case s.stack() == nil:
		return 0, &OpError{Op: "network header", Err: &FeatureError{Feature: "headers of a socket whose packets the kernel builds",
			Code: "os.kernel_headers"}}
	case !to.IsValid():
		return 0, &OpError{Op: "network header", Err: syscall.ENOTCONN}
	}
	n, e := s.stack().Header(s, to, dst)
	switch e {
	case 0:
		return n, nil
	case syscall.EOPNOTSUPP:
		return 0, &OpError{Op: "network header", Addr: to, Err: &FeatureError{
			Feature: "headers of datagrams to an address that no link carries them to: the ring or the kernel delivers them", Code: "header.no_link"}}
	}
	return n, &OpError{Op: "network header", Addr: to, Err: e}
}
