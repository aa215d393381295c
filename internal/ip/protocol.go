package ip

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Protocol is a transport protocol above a stack: UDP or TCP. The stack calls it on the ring's goroutine.
type Protocol interface {
	// Input takes the packets of a burst that have the protocol's number (Parsed.Protocol): their packets are the protocol's from then on, and
	// it clears them in Burst.Frames. It is called once for a burst that has any.
	Input(now clock.Time, b *Burst)
	// Error takes an ICMP error about a packet that the protocol seems to have sent. Accept: it did. Otherwise the reason to drop the message,
	// which changes nothing then: ICMPNoSocket for a flow that the protocol does not have.
	Error(now clock.Time, e ICMPError) wire.Drop
	// Changed says what changed. Routes need no such call, whose generation is compared before each use (IsCurrent); segment sizes and
	// retransmissions do. It may find routes and send, and must change neither links nor tables.
	Changed(c Change)
}

// ICMPError is an ICMP error about a packet that was sent from here.
type ICMPError struct {
	// Flow is that of the answers to the quoted packet, so that a lookup finds the socket that sent it: the source is whom it was sent to.
	Flow Flow
	// Errno is what the kernel tells a socket (icmp_err_convert); 0 for errors that may pass.
	Errno Errno
	// NoNeighbour: there was no message; the packet waited for a neighbour that did not answer. Type and Code are those of the host unreachable.
	NoNeighbour bool
	MTU         int // of the next hop, when the packet was too long for it; else 0. The stack keeps it when the protocol accepts the error.
	Type, Code  uint8
	Quote       wire.Quote // the packet's first bytes: a protocol proves by them that it has sent it
}

// Memberships is what the sockets of a protocol want of multicast groups together: the interface state of RFC 9776 section 3.2, which IGMP
// reports.
type Memberships interface {
	// Joined reports whether any socket is a member of the group on the interface.
	Joined(group wire.Addr, iface uint32) bool
	// Groups appends the groups that have members on the interface, sorted.
	Groups(iface uint32, dst []wire.Addr) []wire.Addr
	// Filter is the filter of a group: with exclude, all sources but the listed ones; else the listed ones.
	Filter(group wire.Addr, iface uint32) (exclude bool, sources []wire.Addr)
}

// maxProtocols is how many protocols a stack takes: their turns are bits of Parsed.turn, beside those of the stack's own messages.
const maxProtocols = 6

// Register makes a protocol the receiver of the packets with its number. members, unless nil, is what IGMP reports: one protocol has it.
func (s *Stack) Register(number uint8, p Protocol, members Memberships) error {
	switch {
	case p == nil:
		return fmt.Errorf("ip: register protocol %d: Protocol is nil", number)
	case number == 0, number == wire.ProtocolICMP, number == wire.ProtocolIGMP:
		return fmt.Errorf("ip: register protocol %d: the number is the stack's own", number)
	case s.slots[number] != 0:
		return fmt.Errorf("ip: register protocol %d: it is registered", number)
	case len(s.protocols) == maxProtocols:
		return fmt.Errorf("ip: register protocol %d: %d are registered, which is the most", number, maxProtocols)
	case members != nil && s.members != nil:
		return fmt.Errorf("ip: register protocol %d: another protocol has the memberships", number)
	}
	s.protocols = append(s.protocols, p)
	s.slots[number] = uint8(len(s.protocols))
	if members != nil {
		s.members = members
	}
	return nil
}

// ChangeKind says what changed.
type ChangeKind uint8

// What may change.
const (
	// TablesChanged: links, addresses, routes or rules. Every route is stale, and AddressKind says whether a flow's own address is still there.
	TablesChanged  ChangeKind = iota
	NextHopChanged            // a neighbour has another station address, became known, or is known no more: Addr, on Interface
	PathMTUChanged            // the MTU of the path to Addr became smaller, or is tried larger again
)

// Change is what Protocol.Changed receives.
type Change struct {
	Kind      ChangeKind
	Addr      wire.Addr
	Interface int
}

// notify calls Changed of all protocols.
func (s *Stack) notify(c Change) {
	for _, p := range s.protocols {
		p.Changed(c)
	}
}

// Errno is the kernel's number of an error. Protocols, which import nothing of the operating system, name errors from here.
type Errno = syscall.Errno

// Errors of sends.
const (
	EINVAL       = unix.EINVAL
	EAGAIN       = unix.EAGAIN
	EMSGSIZE     = unix.EMSGSIZE
	ENOBUFS      = unix.ENOBUFS
	ENOTCONN     = unix.ENOTCONN
	EOPNOTSUPP   = unix.EOPNOTSUPP
	ECONNREFUSED = unix.ECONNREFUSED
)
