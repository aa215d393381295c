package ring

import (
	"net/netip"
	"syscall"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
)

// Warmer is an Offloader that can walk the path of a send without sending. Neither call may put anything on the wire, a question for a
// neighbour included, or change what a later packet looks like.
type Warmer interface {
	// Warm does with p, which is transmitting, what sending it to the address does up to the link: route, neighbour, headers written
	// in front of the payload. The caller has p back in any case. EAGAIN: the neighbour is not known. With Way.Kernel set the
	// datagram would go by the socket's descriptor, and nothing was written.
	Warm(s *Socket, to netip.AddrPort, p buffers.Packet) (Way, syscall.Errno)
	// Header writes the headers of a datagram to the address to dst, those fields zero that differ from one to the next; n is their
	// length, also when dst is too short for them (ENOBUFS) or nil. ENOTCONN: the neighbour is not known. EOPNOTSUPP:
	// no link carries what is sent there.
	Header(s *Socket, to netip.AddrPort, dst []byte) (n int, e syscall.Errno)
}

// The reasons why a send cannot be warmed, or not whole.
var (
	warmStream = Reason{Code: "warm.kernel_tcp",
		Text: "the kernel's streams (TCP, unix-domain) have no send that sends nothing"}
	warmKernel = Reason{Code: "warm.kernel_path",
		Text: "the kernel walks the system call, the socket and the route (MSG_PROBE); what follows in it (buffer, headers, queue, " +
			"driver) stays cold"}
)

// WarmReason says what Warm lacks on this socket: the zero Reason when it walks the whole path up to the link; warm.kernel_path when
// the kernel sends and only its first part can be walked; warm.kernel_tcp when Warm is refused. It speaks of destinations behind a
// link: what an offloaded socket sends to its own host, or to groups with members there, the kernel sends, and Warm then walks that way.
//
// Owner only.
func (s *Socket) WarmReason() Reason {
	switch {
	case !s.readable():
		return Reason{}
	case s.handle.Kind != Datagram:
		return warmStream
	case !s.handle.Stack:
		return warmKernel
	}
	if _, ok := s.ring.off.(Warmer); !ok {
		return warmKernel
	}
	return Reason{}
}

// Warm walks the path of sending b without sending it, so that code, tables and buffers are in the caches when the real message comes:
// nothing is put on the wire, no identification is used up, no EventOut follows. (VMA: a send with VMA_SND_FLAGS_DUMMY.) to is for
// datagram sockets, and zero for the connected peer.
//
// On an offloaded socket it takes a buffer, copies b, finds route and neighbour, writes the headers, and gives the buffer back.
// Where the kernel sends, it is asked to go as far as the route (MSG_PROBE). WarmReason tells which; streams answer ErrNotSupported.
//
// EAGAIN: the path is not warm, and walking it would mean asking for the neighbour (Prepare does that), or there is no buffer or place
// in the queue, as for Send. Each call is counted (Stats.WarmSends, WarmSendsCold). It does not allocate. Owner only.
func (s *Socket) Warm(b []byte, to netip.AddrPort) error {
	if err := s.usable("warm"); err != nil {
		return err
	}
	switch {
	case s.handle.Kind != Datagram:
		return &OpError{Op: "warm", Err: &FeatureError{Feature: warmStream.Text, Code: warmStream.Code}}
	case s.state != stateOpen:
		return s.cannotSend("warm")
	case !to.IsValid():
		to = s.remote
		if !to.IsValid() {
			return &OpError{Op: "warm", Err: syscall.EDESTADDRREQ}
		}
	}
	e := s.warm(b, to)
	switch e {
	case 0:
		s.ring.stats.WarmSends++
		s.counts.WarmSends++
		return nil
	case syscall.EAGAIN:
		s.ring.stats.WarmSendsCold++
		s.counts.WarmSendsCold++
		return errCold
	}
	return &OpError{Op: "warm", Addr: to, Err: e}
}

// errCold is made once: a program that warms in a loop meets it often.
var errCold error = &OpError{Op: "warm: the path is not ready", Err: syscall.EAGAIN}

func (s *Socket) warm(b []byte, to netip.AddrPort) syscall.Errno {
	if s.checkAddress(to) != nil {
		return syscall.EAFNOSUPPORT
	}
	switch w, ok := s.ring.off.(Warmer); {
	case to.Port() == 0:
		return syscall.EINVAL
	case len(b) > s.largestPayload():
		return syscall.EMSGSIZE
	case s.handle.Stack && ok:
		return s.warmOwn(w, b, to)
	}
	return s.warmKernel(b, to)
}

// warmKernel lets the transport walk as far as it can.
func (s *Socket) warmKernel(b []byte, to netip.AddrPort) syscall.Errno {
	if p, ok := s.transport.(Prober); ok {
		return p.Probe(s, sys.NoEscape(b), to)
	}
	return syscall.EOPNOTSUPP
}

// warmOwn is give and what the driver does with it, but for the queues.
func (s *Socket) warmOwn(w Warmer, b []byte, to netip.AddrPort) syscall.Errno {
	r := s.ring
	if s.full() {
		return syscall.EAGAIN
	}
	p, room := r.pool.Draft(0, len(b))
	if p.IsZero() {
		return syscall.EAGAIN
	}
	copy(room, b)
	if s.sending.waiting.n == 0 { // the records of queued sends, too
		s.sending.waiting.push(&r.slab, record{packet: p, destination: to, copied: true})
		s.sending.waiting.pop(&r.slab)
	}
	way, e := w.Warm(s, to, p)
	r.pool.Sent(p)
	if e == 0 && way.Kernel {
		return s.warmKernel(b, to)
	}
	return e
}

// Header writes the headers that a datagram to an address has in front of its payload (Ethernet, a VLAN tag, IPv4, UDP) to dst and
// returns their length; fields that differ from packet to packet (lengths, identification, sums) are zero. A nil dst asks for the
// length; one that is too short is ENOBUFS. to is zero for the connected peer; without one, or while the neighbour is not known, it is
// ENOTCONN. Rings over kernel sockets answer ErrNotSupported: there the kernel makes the headers. So do offloaded sockets for a destination
// that no link carries datagrams to: an address of this host, a group with members here, a destination that a rule leaves to the kernel.
// (VMA: get_socket_network_header.) Owner only.
func (s *Socket) Header(dst []byte, to netip.AddrPort) (int, error) {
	if err := s.usable("network header"); err != nil {
		return 0, err
	}
	if !to.IsValid() {
		to = s.remote
	}
	w, ok := s.ring.off.(Warmer)
	switch {
	case !ok || !s.handle.Stack:
		return 0, &OpError{Op: "network header", Err: &FeatureError{Feature: "headers of a socket whose packets the kernel builds",
			Code: "os.kernel_headers"}}
	case !to.IsValid():
		return 0, &OpError{Op: "network header", Err: syscall.ENOTCONN}
	}
	n, e := w.Header(s, to, dst)
	switch e {
	case 0:
		return n, nil
	case syscall.EOPNOTSUPP:
		return 0, &OpError{Op: "network header", Addr: to, Err: &FeatureError{
			Feature: "headers of datagrams to an address that no link carries them to: the ring or the kernel delivers them", Code: "header.no_link"}}
	}
	return n, &OpError{Op: "network header", Addr: to, Err: e}
}
