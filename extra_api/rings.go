package extraapi

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Poll is socketxtreme_poll: it polls the ring whose descriptor is fd. Only a ring's descriptor will do: that of a socket, an epoll set
// or a file is EBADFD. Looking the ring up costs two loads: no lock, no allocation. Owner only.
func Poll(e *xtreme.Engine, fd int, dst []xtreme.Completion) (int, error) {
	if e == nil {
		return 0, fmt.Errorf("extraapi: Poll: engine is nil: %w", unix.EINVAL)
	}
	r, ok := e.RingByFD(fd)
	if !ok {
		return 0, fmt.Errorf("extraapi: Poll: descriptor %d is no ring's: %w", fd, unix.EBADFD)
	}
	return r.Poll(dst)
}

// SocketRingsNum is how many rings a socket has, 0 before it has one and after it was closed. (VMA: get_socket_rings_num.)
func SocketRingsNum(s *xtreme.Socket) int {
	if s == nil {
		return 0
	}
	return s.NumRings()
}

// SocketRingsFDs writes the descriptors of the socket's rings to dst and returns how many; 0 without a ring. A dst without room is EINVAL,
// another goroutine ErrOwner. (VMA: get_socket_rings_fds.)
func SocketRingsFDs(s *xtreme.Socket, dst []int) (int, error) {
	if s == nil {
		return 0, nil
	}
	if err := s.Check(); errors.Is(err, ring.ErrOwner) {
		return 0, fmt.Errorf("extraapi: SocketRingsFDs: %w", err)
	}
	return s.RingFDs(dst)
}

// SocketTxRing is the ring that carries what the socket sends to an address (zero: to its peer); here a socket sends by the ring that it
// receives by. Unlike VMA's it needs no send before, and knows TCP. Errors: no ring yet (ErrState), closed (ErrClosed), another goroutine
// (ErrOwner), no destination (ENODATA), one of another family (EAFNOSUPPORT), or on a connection one that is not its peer (ENODATA).
// (VMA: get_socket_tx_ring_fd.)
func SocketTxRing(s *xtreme.Socket, to netip.AddrPort) (*ring.Ring, error) {
	if s == nil {
		return nil, noSocket("SocketTxRing")
	}
	fail := func(err error) (*ring.Ring, error) {
		return nil, fmt.Errorf("extraapi: SocketTxRing: socket %d to %s: %w", s.ID(), orNone(to.IsValid(), to), err)
	}
	if err := s.Check(); err != nil {
		return fail(err)
	}
	switch {
	case !to.IsValid() && !s.RemoteAddr().IsValid(), to.IsValid() && s.Kind() != xtreme.KindDatagram && unmapped(to) != unmapped(s.RemoteAddr()):
		return fail(unix.ENODATA)
	case to.IsValid() && to.Addr().Unmap().Is4() && s.LocalAddr().Addr().Is6() && !s.LocalAddr().Addr().IsUnspecified(),
		to.IsValid() && to.Addr().Is6() && !to.Addr().Is4In6() && s.LocalAddr().Addr().Is4():
		return fail(unix.EAFNOSUPPORT)
	default:
		return s.Ring(), nil
	}
}

// unmapped is an address of IPv4 as one, if it is written as one of IPv6.
func unmapped(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// SocketNetworkHeader writes the headers that a datagram to an address (zero: the connected peer) has in front of its payload to dst:
// Ethernet, a VLAN tag, IPv4, UDP, with lengths, identification and sums zero. A nil dst asks for the length. Errors: ENOBUFS with the
// length when dst is too short, ENOTCONN without a peer or while its neighbour is unknown (Prepare asks), ErrNotSupported where the
// kernel makes the headers, and where no link carries the datagram (header.no_link). Owner only. (VMA: get_socket_network_header.)
func SocketNetworkHeader(s *xtreme.Socket, dst []byte, to netip.AddrPort) (int, error) {
	if s == nil {
		return 0, noSocket("SocketNetworkHeader")
	}
	n, err := s.HeaderRoom(dst, to)
	if err != nil {
		err = fmt.Errorf("extraapi: SocketNetworkHeader: %w", err)
	}
	return n, err
}

// RingAttributes say which ring a socket is to have. (VMA: struct vma_ring_alloc_logic_attr.)
type RingAttributes struct {
	Logic  ring.Logic
	UserID uint64 // the key of ring.PerUserID
}

// SocketConfig makes a socket with these attributes; a value that is no logic is an error when the socket is made. (VMA:
// SO_VMA_RING_ALLOC_LOGIC.)
func (a RingAttributes) SocketConfig() xtreme.SocketConfig {
	return xtreme.SocketConfig{RingLogic: &a.Logic, UserID: a.UserID}
}

// SocketRingAttributes are those the socket's ring was made by: what the poller has where the socket did not ask, and what OneRing of an
// offloaded poller made of it. Without a ring it is ErrState, closed ErrClosed, of another goroutine ErrOwner.
func SocketRingAttributes(s *xtreme.Socket) (RingAttributes, error) {
	if s == nil {
		return RingAttributes{}, noSocket("SocketRingAttributes")
	}
	if err := s.Check(); err != nil {
		return RingAttributes{}, fmt.Errorf("extraapi: SocketRingAttributes: socket %d: %w", s.ID(), err)
	}
	return RingAttributes{Logic: s.Ring().Key().Logic, UserID: ring.ConfigOf(s).UserID}, nil
}

// RingModification is what ModifyRing is to do. (VMA: struct vma_modify_ring_attr, which does the first of two things asked for.)
type RingModification struct {
	Arm        bool        // make the ring's descriptor readable on the next event
	Moderation *Moderation // nil: leave it
}

// Moderation says how many completions, and for how long, the card gathers before it interrupts.
type Moderation struct {
	Count  int
	Period time.Duration
}

// noModeration is why moderation is refused.
var noModeration = ring.Reason{Code: "ring.card_moderation",
	Text: "interrupt moderation is the card's and its driver's, for all of a queue's users (ethtool -C), not one ring's"}

// ModifyRing arms a ring: pending means that work waits already, poll instead of waiting. Moderation is refused with ErrNotSupported, and
// then nothing is done, armed neither. Nothing asked for is EINVAL. Owner only. (VMA: vma_modify_ring.)
func ModifyRing(r *ring.Ring, m RingModification) (pending bool, err error) {
	switch {
	case r == nil:
		return false, fmt.Errorf("extraapi: ModifyRing: ring is nil: %w", unix.EINVAL)
	case m.Moderation != nil:
		return false, fmt.Errorf("extraapi: ModifyRing: moderation: %w",
			&ring.FeatureError{Feature: noModeration.Text, Code: noModeration.Code})
	case !m.Arm:
		return false, fmt.Errorf("extraapi: ModifyRing: nothing to modify: %w", unix.EINVAL)
	}
	return r.Arm()
}
