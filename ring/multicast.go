package ring

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
)

// Multicast membership of a UDP socket: the kernel speaks IGMP and MLD. Interfaces are given by name; empty lets the routing
// table choose.

// JoinGroup joins a group on an interface; with a valid source only that source's packets are received (source-specific
// multicast, RFC 4607). More sources of one group are joined one by one.
func (s *Socket) JoinGroup(group netip.Addr, iface string, source netip.Addr) error {
	return s.membership("join group", group, iface, source, true)
}

// LeaveGroup undoes JoinGroup with the same arguments.
func (s *Socket) LeaveGroup(group netip.Addr, iface string, source netip.Addr) error {
	return s.membership("leave group", group, iface, source, false)
}

func (s *Socket) membership(op string, group netip.Addr, iface string, source netip.Addr, join bool) error {
	switch {
	case s.handle.Kind != Datagram:
		return stateError(op, s)
	case s.state >= stateClosing:
		return &OpError{Op: op, Err: ErrClosed}
	case !group.IsMulticast():
		return badArgument(op, "group", group)
	case sys.Family(group) != s.family:
		return badArgument(op, "group of another family than the socket's:", group)
	case source.IsValid() && (source.IsMulticast() || sys.Family(source) != s.family):
		return badArgument(op, "source", source)
	}
	index := 0
	if iface != "" {
		var err error
		if index, err = s.set.interfaceIndex(iface); err != nil {
			return &OpError{Op: op, Err: err}
		}
	}
	change := sys.GroupMembership
	if n := s.set.config.Network; n != nil {
		change = n.Membership
	}
	if err := change(s.handle.FD, group, index, source, join); err != nil {
		what := fmt.Sprintf("%v on interface %q", group, iface)
		if source.IsValid() {
			what += fmt.Sprintf(" from %v", source)
		}
		return &OpError{Op: op, Err: fmt.Errorf("%s: %w", what, err)}
	}
	s.settings.member(Membership{group, index, source}, join)
	return s.changed(op)
}

// SetMulticastInterface chooses the interface that multicast packets leave by.
func (s *Socket) SetMulticastInterface(iface string) error {
	if s.state >= stateClosing {
		return &OpError{Op: "set multicast interface", Err: ErrClosed}
	}
	index, err := s.set.interfaceIndex(iface)
	if err != nil {
		return &OpError{Op: "set multicast interface", Err: err}
	}
	if s.set.config.Network != nil {
		s.settings.MulticastInterface = index
		return s.changed("set multicast interface")
	}
	if s.family == unix.AF_INET6 {
		return s.setInt("multicast interface", unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, index)
	}
	if err := unix.SetsockoptIPMreqn(s.handle.FD, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, &unix.IPMreqn{Ifindex: int32(index)}); err != nil {
		return &OpError{Op: "set multicast interface", Err: fmt.Errorf("%s: %w", iface, err)}
	}
	s.settings.MulticastInterface = index
	return s.changed("set multicast interface")
}

// SetMulticastLoop says whether members on this host get what this socket sends (IP_MULTICAST_LOOP). It works on the sender, as
// Linux has it; VMA filtered at the receiver.
func (s *Socket) SetMulticastLoop(on bool) error {
	return s.setIP("multicast loop", unix.IP_MULTICAST_LOOP, unix.IPV6_MULTICAST_LOOP, number(on))
}

// SetMulticastTTL sets the time to live of multicast packets, 0 to 255; the kernel's default is 1 (VMA's was 64).
func (s *Socket) SetMulticastTTL(n int) error {
	if n < 0 || n > 255 {
		return badArgument("multicast ttl", "value", n)
	}
	return s.setIP("multicast ttl", unix.IP_MULTICAST_TTL, unix.IPV6_MULTICAST_HOPS, n)
}

// SetMulticastAll false keeps groups away that other sockets of the host joined and this one did not (IP_MULTICAST_ALL); a
// wildcard-bound socket sees them otherwise.
func (s *Socket) SetMulticastAll(on bool) error {
	const ipv6MulticastAll = 29 // linux/in6.h
	return s.setIP("multicast all", unix.IP_MULTICAST_ALL, ipv6MulticastAll, number(on))
}
