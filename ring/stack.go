package ring

import (
	"net/netip"
	"syscall"

	"github.com/socketxtreme/socketxtreme/buffers"
)

// StackTransport is a Transport over a protocol stack of the library. A driver gives it to the datagram sockets that its stack carries
// (SetTransport in Attach); the others stay with the transport they were made by, as on any ring.
//
// What Send takes leaves with the ring's next Poll or Flush. It becomes a frame at once, or waits on the socket behind others (QueueCopy) until
// the driver fetches it with TakeTransmission; after each round over a socket the driver calls TransmissionsTaken. Send answers EALREADY when
// as much waits as Config.SendQueue allows: TransmissionsTaken then reports that there is room, and NotifyWritable is not called.
type StackTransport interface {
	Transport
	Prober
	// Prepare finds the route to a destination, or why there is none.
	Prepare(s *Socket, to netip.AddrPort) syscall.Errno
	// Header writes the headers of a datagram to the address to dst, those fields zero that differ from one to the next; n is their
	// length, also when dst is too short for them (ENOBUFS) or nil. ENOTCONN: the neighbour is not known. EOPNOTSUPP: no link carries it.
	Header(s *Socket, to netip.AddrPort, dst []byte) (n int, e syscall.Errno)
	// Unsent is how many datagrams are frames that have not left; CancelUnsent drops them and reports how many they were.
	Unsent(s *Socket) int
	CancelUnsent(s *Socket) int
	// Changed reports that the socket's addresses, SocketOptions or device are others than before.
	Changed(s *Socket) error
	// MembershipChanged reports that of the socket's SocketOptions.Groups those with the group and source of m are others than before, and
	// nothing else: what it costs must not grow with their number.
	MembershipChanged(s *Socket, m Membership) error
}

// StreamStack is a Transport over a TCP stack of the library.
type StreamStack interface {
	Transport
	// IsStreamStack tells it from other transports; it does nothing.
	IsStreamStack()
}

// IsOffloaded reports whether a stack of the library carries the socket, and not the kernel. Owner only.
func (s *Socket) IsOffloaded() bool { return s.readable() && s.isOffloaded() }

// isOffloaded is IsOffloaded for a caller that is the owner.
func (s *Socket) isOffloaded() bool {
	e := &s.makerSet().transports[s.via]
	return e.stack != nil || e.isStreamStack
}

// SendQueue is a socket's sends that are not done.
type SendQueue struct {
	Waiting  int  // packets on the socket
	UnderWay int  // packets that the driver has
	Limit    int  // Config.SendQueue
	Paced    bool // they leave at times of the core's (SetPacing)
}

// SendQueueOf is the socket's sends that are not done. For transports. Owner only.
func SendQueueOf(s *Socket) SendQueue {
	if !s.readable() {
		return SendQueue{}
	}
	set := s.makerSet()
	a := set.actives[s.activeIndex]
	return SendQueue{int(a.sending.waiting.n), a.sending.inflight, set.settings[s.settings.Load()].config.SendQueue, a.shaper != nil}
}

// QueueCopy puts a datagram that a StackTransport has copied behind what waits on the socket; p is transmitting, and nobody waits for its end.
// route comes back in Transmission.Route. For transports. Owner only.
func QueueCopy(s *Socket, p buffers.Packet, to netip.AddrPort, route int32) {
	if !s.readable() || s.ring() == nil {
		return
	}
	rec := s.activate().sending.waiting.add(&s.ring().slab)
	rec.packet, rec.destination, rec.route, rec.copied = p, to, route, true
	s.onQueued()
}

// Prepare makes everything ready for the first send to an address: route, neighbour, headers. It returns at once; a neighbour may still
// be being asked for. On sockets that the kernel carries there is nothing to prepare. Datagram sockets; owner only.
func (s *Socket) Prepare(to netip.AddrPort) error {
	if err := s.usable("prepare"); err != nil {
		return err
	}
	switch {
	case s.handle.Kind != KindDatagram:
		return stateError("prepare", s)
	case s.stack() == nil:
		return nil
	}
	if e := s.stack().Prepare(s, to); e != 0 {
		return &OpError{Op: "prepare", Addr: to, Err: e}
	}
	return nil
}

// TransmissionsTaken is called by a driver that has fetched what it could of the socket's transmissions: EventOut is raised if it is due, and
// what waited for an empty queue goes on.
func TransmissionsTaken(s *Socket) {
	if !s.readable() || s.state == stateGone {
		return
	}
	s.announceLowWater()
	if !s.active().sending.hasWaiting() {
		s.onSendsDone()
	}
}

// notifyStack tells the stack that carries the socket, if one does, that addresses or options have changed; op is the call that changed them.
func (s *Socket) notifyStack(op string) error {
	if s.stack() == nil || s.state >= stateDead {
		return nil
	}
	if err := s.stack().Changed(s); err != nil {
		return &OpError{Op: op, Err: err}
	}
	return nil
}
