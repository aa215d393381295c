package ring

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// Multicast membership of a UDP socket: the kernel speaks IGMP and MLD. Interfaces are given by name; empty lets the routing
// table choose.

// JoinGroup joins a group on an interface; with a valid source only that source's packets are received (source-specific
// multicast, RFC 4607). More sources of one group are joined one by one.
//
// A descriptor has room for net.ipv4.igmp_max_memberships groups (20 by default) and net.ipv4.igmp_max_msf sources of each (10). An
// offloaded socket that is bound goes on with further descriptors; for any other socket one more is ENOBUFS, with the limit's name.
func (s *Socket) JoinGroup(group netip.Addr, iface string, source netip.Addr) error {
	return s.membership("join group", group, iface, source, true)
}

// LeaveGroup undoes JoinGroup with the same arguments, also when the interface was deleted meanwhile.
func (s *Socket) LeaveGroup(group netip.Addr, iface string, source netip.Addr) error {
	return s.membership("leave group", group, iface, source, false)
}

// membership is JoinGroup and LeaveGroup.
func (s *Socket) membership(op string, group netip.Addr, iface string, source netip.Addr, join bool) error {
	if err := s.mayUse(op); err != nil {
		return err
	}
	return traced(s, op, membershipCall{group, iface, source}, s.changeMembership(op, group, iface, source, join))
}

// membershipCall is what JoinGroup and LeaveGroup are given, for the Tracer.
type membershipCall struct {
	group  netip.Addr
	iface  string
	source netip.Addr
}

// String is the group, with interface and source where they were given.
func (m membershipCall) String() string {
	text := m.group.String()
	if m.iface != "" {
		text += " on " + m.iface
	}
	if m.source.IsValid() {
		text += " from " + m.source.String()
	}
	return text
}

// changeMembership is membership for a caller that is the owner. It checks the arguments, finds the interface, also one that was deleted since
// the group was joined, asks SetConfig.Place whether an offloaded socket may have the group, and has transport and stack change the membership.
func (s *Socket) changeMembership(op string, group netip.Addr, iface string, source netip.Addr, join bool) error {
	switch {
	case s.handle.Kind != KindDatagram:
		return stateError(op, s)
	case !group.IsMulticast():
		return badArgument(op, "group", group)
	case FamilyOfAddr(group) != s.family:
		return badArgument(op, "group of another family than the socket's:", group)
	case source.IsValid() && (source.IsMulticast() || FamilyOfAddr(source) != s.family):
		return badArgument(op, "source", source)
	}
	index, gone := 0, false
	if iface != "" {
		var err error
		if index, err = s.transport().Interface(iface); err != nil && !join {
			index, gone = s.active().options.goneInterface(group, iface, source)
		}
		if err != nil && !gone {
			return &OpError{Op: op, Err: err}
		}
	}
	m := Membership{group, index, source}
	if join && s.stack() != nil && s.state < stateDead {
		all := s.active().options.Groups
		s.activate().options.Groups = []Membership{m}
		err := s.chooseSet()
		s.activate().options.Groups = all
		if err != nil {
			return &OpError{Op: op, Err: err}
		}
	}
	// ENODEV of an interface that was deleted: its memberships ended with it.
	if err := s.transport().SetMembership(s, m, join); err != nil && !(gone && errors.Is(err, syscall.ENODEV)) {
		what := fmt.Sprintf("%v on interface %q", group, iface)
		if source.IsValid() {
			what += fmt.Sprintf(" from %v", source)
		}
		return &OpError{Op: op, Err: fmt.Errorf("%s: %w", what, err)}
	}
	s.activate().options.noteMembership(m, join)
	if join && iface != "" {
		s.activate().options.name(index, iface)
	}
	s.memberHappened(m, join)
	if s.stack() == nil || s.state >= stateDead {
		return nil
	}
	if err := s.stack().MembershipChanged(s, m); err != nil {
		return &OpError{Op: op, Err: err}
	}
	return nil
}

// SetMulticastInterface chooses the interface that multicast packets leave by; "" leaves it to the routing table again.
func (s *Socket) SetMulticastInterface(iface string) error {
	if err := s.mayUse("set multicast interface"); err != nil {
		return err
	}
	index := 0
	if iface != "" {
		var err error
		if index, err = s.transport().Interface(iface); err != nil {
			return traced(s, "set multicast interface", iface, &OpError{Op: "set multicast interface", Err: err})
		}
	}
	return s.setOption("multicast interface", OptionMulticastInterface, index)
}

// SetMulticastLoop says whether members on this host get what this socket sends (IP_MULTICAST_LOOP). It works on the sender, as
// Linux has it; VMA filtered at the receiver.
func (s *Socket) SetMulticastLoop(on bool) error {
	return s.setOption("multicast loop", OptionMulticastLoop, number(on))
}

// SetMulticastTTL sets the time to live of multicast packets, 0 to 255; the kernel's default is 1 (VMA's was 64).
func (s *Socket) SetMulticastTTL(n int) error {
	if err := s.mayUse("set multicast ttl"); err != nil {
		return err
	}
	if n < 0 || n > 255 {
		return s.badOption("multicast ttl", "value", n)
	}
	return s.setOption("multicast ttl", OptionMulticastTTL, n)
}

// SetMulticastAll false keeps groups away that other sockets of the host joined and this one did not (IP_MULTICAST_ALL); a
// wildcard-bound socket sees them otherwise.
func (s *Socket) SetMulticastAll(on bool) error {
	return s.setOption("multicast all", OptionMulticastAll, number(on))
}
