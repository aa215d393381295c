package ring

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
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

func (s *Socket) membership(op string, group netip.Addr, iface string, source netip.Addr, join bool) error {
	if err := s.mayUse(op); err != nil {
		return err
	}
	switch {
	case s.handle.Kind != Datagram:
		return stateError(op, s)
	case !group.IsMulticast():
		return badArgument(op, "group", group)
	case sys.Family(group) != s.family:
		return badArgument(op, "group of another family than the socket's:", group)
	case source.IsValid() && (source.IsMulticast() || sys.Family(source) != s.family):
		return badArgument(op, "source", source)
	}
	index, gone := 0, false
	if iface != "" {
		var err error
		if index, err = s.set.interfaceIndex(iface); err != nil && !join {
			index, gone = s.settings.goneInterface(group, iface, source)
		}
		if err != nil && !gone {
			return &OpError{Op: op, Err: err}
		}
	}
	m := Membership{group, index, source}
	if join && s.ring != nil && s.ring.off != nil && s.state < stateDead {
		all := s.settings.Groups
		s.settings.Groups = []Membership{m}
		err := s.place()
		s.settings.Groups = all
		if err != nil {
			return &OpError{Op: op, Err: err}
		}
	}
	if err := s.changeMembership(m, join); err != nil && !(gone && errors.Is(err, unix.ENODEV)) { // ip_mc_source wants the interface
		what := fmt.Sprintf("%v on interface %q", group, iface)
		if source.IsValid() {
			what += fmt.Sprintf(" from %v", source)
		}
		return &OpError{Op: op, Err: fmt.Errorf("%s: %w", what, s.membershipLimit(m, err))}
	}
	s.settings.member(m, join)
	if join && iface != "" {
		s.settings.name(index, iface)
	}
	if s.ring == nil || s.ring.off == nil || s.state >= stateDead {
		return nil
	}
	if err := s.ring.off.MembershipChanged(s, m); err != nil {
		return &OpError{Op: op, Err: err}
	}
	return nil
}

// changeMembership asks whoever keeps the socket's memberships.
func (s *Socket) changeMembership(m Membership, join bool) error {
	switch n := s.set.config.Network; {
	case n != nil:
		return n.Membership(s.handle.FD, m.Group, m.Interface, m.Source, join)
	case s.ring != nil && s.ring.off != nil && s.state < stateDead:
		return s.ring.off.Membership(s, m.Group, m.Interface, m.Source, join)
	}
	return sys.GroupMembership(s.handle.FD, m.Group, m.Interface, m.Source, join)
}

// membershipLimit puts the kernel's limit into words: ENOBUFS says neither which one it is nor that there is one (ip_mc_join_group,
// ip_mc_source and ip6_mc_source in the kernel).
func (s *Socket) membershipLimit(m Membership, err error) error {
	if !errors.Is(err, unix.ENOBUFS) || s.set.config.Network != nil {
		return err
	}
	limit, what := "net.ipv4.igmp_max_memberships", "groups"
	switch {
	case s.family == unix.AF_INET6:
		limit, what = "net.ipv6.mld_max_msf", "sources of one group"
	case m.Source.IsValid() && slices.ContainsFunc(s.settings.Groups, func(g Membership) bool {
		return g.Group == m.Group && g.Interface == m.Interface && g.Source.IsValid()
	}):
		limit, what = "net.ipv4.igmp_max_msf", "sources of one group"
	}
	value, failure := os.ReadFile("/proc/sys/" + strings.ReplaceAll(limit, ".", "/"))
	if failure != nil {
		return fmt.Errorf("one descriptor may have no more %s (%s): %w", what, limit, err)
	}
	return fmt.Errorf("one descriptor may have %s %s (%s): %w", strings.TrimSpace(string(value)), what, limit, err)
}

// SetMulticastInterface chooses the interface that multicast packets leave by.
func (s *Socket) SetMulticastInterface(iface string) error {
	if err := s.mayUse("set multicast interface"); err != nil {
		return err
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
	if err := s.mayUse("set multicast ttl"); err != nil {
		return err
	}
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
