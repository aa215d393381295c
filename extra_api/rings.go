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

// Poll polls the ring whose descriptor (Ring.FD) is fd, stores completions into dst and returns how many. Any other descriptor, such as that
// of a socket, an epoll set or a file, is EBADFD. Finding the ring takes two loads, no lock and no allocation. Owner only. (VMA:
// socketxtreme_poll.)
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

// SocketRingsNum returns how many rings a socket has: 1, or 0 before it has one, after it was closed, and on another goroutine than the owner's.
// (VMA: get_socket_rings_num.)
func SocketRingsNum(s *xtreme.Socket) int {
	if s == nil {
		return 0
	}
	return s.NumRings()
}

// SocketRingsFDs stores the descriptors of the socket's rings in dst and returns how many; 0 if it has no ring. A dst that is too short is
// EINVAL. Owner only. (VMA: get_socket_rings_fds.)
func SocketRingsFDs(s *xtreme.Socket, dst []int) (int, error) {
	if s == nil {
		return 0, nil
	}
	if err := s.Check(); errors.Is(err, ring.ErrOwner) {
		return 0, fmt.Errorf("extraapi: SocketRingsFDs: %w", err)
	}
	return s.RingFDs(dst)
}

// SocketTxRing returns the ring by which a socket sends to an address; the zero to means its peer. It is always the ring by which the socket
// receives. Unlike VMA's it works before the first send, and for TCP. Errors: no ring yet (ErrState), closed (ErrClosed), another goroutine
// (ErrOwner), no destination (ENODATA), a destination of another family (EAFNOSUPPORT), on a connection a destination that is not its peer
// (ENODATA). (VMA: get_socket_tx_ring_fd.)
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

// unmapped converts an IPv4 address that is written as an IPv6 address (::ffff:10.0.0.1) to IPv4; others stay as they are.
func unmapped(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// SocketNetworkHeader stores in dst the headers that a datagram to an address has before its payload, and returns their length: Ethernet, a VLAN
// tag if there is one, IPv4, UDP, with lengths, identification and checksums zero. The zero to means the connected peer; a nil dst asks for the
// length only. Errors: ENOBUFS, with the length, if dst is too short; ENOTCONN without a peer, or while the next hop's address is unknown
// (Prepare asks for it); ErrNotSupported if the kernel makes the headers, or if no link carries the datagram (header.no_link). Owner only.
// (VMA: get_socket_network_header.)
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

// RingAttributes say which ring a socket has. (VMA: struct vma_ring_alloc_logic_attr.)
type RingAttributes struct {
	Logic  xtreme.Logic
	UserID uint64 // with xtreme.PerUserID: sockets with the same UserID share a ring
}

// SocketConfig returns the configuration of a socket with these attributes. A Logic that does not exist is an error of the call that makes the
// socket. (VMA: SO_VMA_RING_ALLOC_LOGIC.)
func (a RingAttributes) SocketConfig() xtreme.SocketConfig {
	return xtreme.SocketConfig{RingLogic: &a.Logic, UserID: a.UserID}
}

// SocketRingAttributes returns the attributes by which the socket's ring was chosen: Logic is the poller's if the socket was given none, UserID
// the socket's. On an offloaded ring, of which a poller has only one, Logic is what that ring allows. Errors: no ring yet (ErrState), closed
// (ErrClosed), another goroutine (ErrOwner).
func SocketRingAttributes(s *xtreme.Socket) (RingAttributes, error) {
	if s == nil {
		return RingAttributes{}, noSocket("SocketRingAttributes")
	}
	if err := s.Check(); err != nil {
		return RingAttributes{}, fmt.Errorf("extraapi: SocketRingAttributes: socket %d: %w", s.ID(), err)
	}
	return RingAttributes{Logic: s.Ring().Key().Logic, UserID: ring.ConfigOf(s).UserID}, nil
}

// RingModification is what ModifyRing does to a ring. (VMA: struct vma_modify_ring_attr, which does only the first of several things.)
type RingModification struct {
	Arm        bool        // make the ring's descriptor readable on the next event
	Moderation *Moderation // interrupt moderation, which is refused; nil: none
}

// Moderation says after how many completions, and after how long at most, a network card interrupts.
type Moderation struct {
	Count  int
	Period time.Duration
}

// noModeration is the reason why moderation is refused.
var noModeration = ring.Reason{Code: "ring.card_moderation",
	Text: "interrupt moderation is the card's and its driver's, for all of a queue's users (ethtool -C), not one ring's"}

// ModifyRing arms a ring, as Ring.Arm does: pending means that there is work already, so that the caller should poll instead of waiting. A
// modification with Moderation is refused with ErrNotSupported and does not arm. An empty one is EINVAL. Owner only. (VMA: vma_modify_ring.)
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
