package stack

import (
	"net/netip"
	"syscall"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/udp"
)

// QueueLimit is how many frames may wait for the links. Beyond it datagrams stay queued on their sockets, until those refuse further sends.
const QueueLimit = 512

// Host is the driver that the transport belongs to: it does what is not a send.
type Host interface {
	// FlushEarlier sends what is queued, before something that would overtake it. The ring's next turn returns its error.
	FlushEarlier()
	// FramesRecalled reports that datagrams were taken back from the stack.
	FramesRecalled()
	// SocketChanged reports that the socket's addresses, options or device have changed: the stack must follow.
	SocketChanged(s *ring.Socket) error
	// MembershipChanged does the same when only memberships with the group and source of m have changed.
	MembershipChanged(s *ring.Socket, m ring.Membership) error
	// ChangeMembership joins or leaves a group below the stack.
	ChangeMembership(s *ring.Socket, m ring.Membership, join bool) error
}

// Config is what a Transport is made from.
type Config struct {
	Host  Host
	Below ring.Transport // the one the sockets are made by, or one that knows their numbers
	IP    *ip.Stack
	UDP   *udp.Protocol
	Pool  *buffers.DriverPool
	Now   *clock.Time // the driver's
}

// Transport carries the sockets of one ring. It belongs to the ring's owner.
type Transport struct {
	ring.Transport // below
	host           Host
	ip             *ip.Stack
	udp            *udp.Protocol
	pool           *buffers.DriverPool
	now            *clock.Time
	routeGen       *uint64 // moves whenever a kept route may not be good any more
	flushes        uint64
	kernelSends    uint64
	sockets        []socket // by ring.Handle.Slot
}

// socket is the transport's state of one socket.
type socket struct {
	id       udp.ID
	carried  bool
	route    udp.Prepared // of the destination sent to last
	to       netip.AddrPort
	routeGen uint64 // when it was found
	unsent   int    // datagrams that were made frames in the flush with this number
	flush    uint64
}

var (
	_ ring.StackTransport = (*Transport)(nil)
	_ ring.SendReporter   = (*Transport)(nil)
)

// New makes the transport of a ring.
func New(c Config) *Transport {
	return &Transport{Transport: c.Below, host: c.Host, ip: c.IP, udp: c.UDP, pool: c.Pool, now: c.Now,
		routeGen: c.IP.RouteGeneration(), flushes: 1}
}

// Carry makes t the transport of a socket whose number in UDP's table is id.
func (t *Transport) Carry(s *ring.Socket, id udp.ID) {
	slot := int(ring.HandleOf(s).Slot)
	for len(t.sockets) <= slot {
		t.sockets = append(t.sockets, socket{})
	}
	t.sockets[slot] = socket{id: id, carried: true}
	ring.SetTransport(s, t, ring.HandleOf(s).Conn)
}

// Drop makes the transport below the socket's again.
func (t *Transport) Drop(s *ring.Socket) {
	if x := t.of(s); x != nil {
		*x = socket{}
		ring.SetTransport(s, t.Transport, ring.HandleOf(s).Conn)
	}
}

// of is the state of a socket; nil if t is not its transport.
func (t *Transport) of(s *ring.Socket) *socket {
	if slot := int(ring.HandleOf(s).Slot); slot < len(t.sockets) && t.sockets[slot].carried {
		return &t.sockets[slot]
	}
	return nil
}

// BeginFlush is called when the driver passes the stack's frames to the links: no socket has unsent frames from then on.
func (t *Transport) BeginFlush() { t.flushes++ }

// KernelSends counts the datagrams that were sent by the transport below.
func (t *Transport) KernelSends() uint64 { return t.kernelSends }

// Changed passes the core's report on: the socket's addresses, options or device have changed.
func (t *Transport) Changed(s *ring.Socket) error { return t.host.SocketChanged(s) }

// MembershipChanged passes the core's report on: a membership was joined or left.
func (t *Transport) MembershipChanged(s *ring.Socket, m ring.Membership) error {
	return t.host.MembershipChanged(s, m)
}

// SetMembership joins or leaves a group below the stack.
func (t *Transport) SetMembership(s *ring.Socket, m ring.Membership, join bool) error {
	return t.host.ChangeMembership(s, m, join)
}

// Drops are the datagrams that found no room, in the stack and below it.
func (t *Transport) Drops(s *ring.Socket) (uint32, error) {
	n, err := t.Transport.Drops(s)
	if x := t.of(s); err == nil && x != nil {
		n += uint32(t.udp.Dropped(x.id))
	}
	return n, err
}

// NextReport is of the transport below.
func (t *Transport) NextReport(s *ring.Socket) (ring.SendReport, bool, syscall.Errno) {
	if r, ok := t.Transport.(ring.SendReporter); ok {
		return r.NextReport(s)
	}
	return ring.SendReport{}, false, syscall.EAGAIN
}

// IsEarlierError is of the transport below.
func (t *Transport) IsEarlierError(e syscall.Errno) bool {
	r, ok := t.Transport.(ring.SendReporter)
	return ok && r.IsEarlierError(e)
}

// CountsFailures is of the transport below.
func (t *Transport) CountsFailures() bool {
	r, ok := t.Transport.(ring.SendReporter)
	return ok && r.CountsFailures()
}
