package ring

import (
	"net/netip"
	"slices"
)

// SocketOptions are what the application said of a socket, for drivers with a stack of their own.
type SocketOptions struct {
	TTL                         int // 0: the default
	TOS, MulticastTTL           int
	MulticastLoop, MulticastAll bool
	MulticastInterface          int // 0: the routing table chooses
	Broadcast                   bool
	ReuseAddr, ReusePort        bool
	ReceiveBuffer               int           // 0: the default
	Groups                      []Membership  // as the application has joined them: the source of all other records of memberships
	Stream                      []OptionValue // what was set on a stream that neither listens nor connects yet

	names map[int]string // of the interfaces that groups were joined on by name
}

// Membership is one call of JoinGroup that LeaveGroup has not undone.
type Membership struct {
	Group     netip.Addr
	Interface int        // 0: the routing table chooses
	Source    netip.Addr // invalid: all
}

// OptionValue is an option that was set.
type OptionValue struct {
	Option Option
	Value  int
}

// defaultSocketOptions are Linux's.
var defaultSocketOptions = SocketOptions{MulticastTTL: 1, MulticastLoop: true, MulticastAll: true}

// OptionsOf returns the options that were set on the socket so far. For drivers and transports, which only read them; empty for a goroutine
// that is not the owner.
func OptionsOf(s *Socket) *SocketOptions {
	if !s.readable() || !s.isActive() {
		return &SocketOptions{}
	}
	return &s.active().options
}

// Renumber reports that an interface was made again, with another number: memberships on it are left by the new one. For drivers.
func (x *SocketOptions) Renumber(from, to int) {
	for i := range x.Groups {
		if x.Groups[i].Interface == from {
			x.Groups[i].Interface = to
		}
	}
	if name, ok := x.names[from]; ok {
		x.name(to, name)
	}
}

// name keeps the name of an interface that a group was joined on: when the interface was deleted, LeaveGroup can still find the membership by
// it.
func (x *SocketOptions) name(index int, name string) {
	if x.names == nil {
		x.names = map[int]string{}
	}
	x.names[index] = name
}

// InterfaceName is the interface that the group of a membership was joined on; empty where the routing table chooses it.
func (x *SocketOptions) InterfaceName(m Membership) string { return x.names[m.Interface] }

// goneInterface finds the interface of a membership by the name that it was joined with.
func (x *SocketOptions) goneInterface(group netip.Addr, name string, source netip.Addr) (index int, ok bool) {
	for _, m := range x.Groups {
		if m.Group == group && m.Source == source && m.Interface != 0 && x.names[m.Interface] == name {
			return m.Interface, true
		}
	}
	return 0, false
}

// Device is the index of the interface that BindToDevice tied the socket to, 0 for none. Owner only.
func (s *Socket) Device() int {
	if !s.readable() {
		return 0
	}
	return s.active().device
}

// isDefault reports that no option was set.
func (x *SocketOptions) isDefault() bool {
	return x.TTL == 0 && x.TOS == 0 && x.MulticastTTL == 0 && !x.MulticastLoop && !x.MulticastAll && x.MulticastInterface == 0 && !x.Broadcast &&
		!x.ReuseAddr && !x.ReusePort && x.ReceiveBuffer == 0 && x.Groups == nil && x.Stream == nil && x.names == nil
}

// note keeps the value of an option that has a field, and reports whether it has one.
func (x *SocketOptions) note(o Option, value int) bool {
	on := value != 0
	switch o {
	case OptionReuseAddr:
		x.ReuseAddr = on
	case OptionReusePort:
		x.ReusePort = on
	case OptionBroadcast:
		x.Broadcast = on
	case OptionReceiveBuffer:
		x.ReceiveBuffer = value
	case OptionTTL:
		x.TTL = value
	case OptionTOS:
		x.TOS = value
	case OptionMulticastInterface:
		x.MulticastInterface = value
	case OptionMulticastTTL:
		x.MulticastTTL = value
	case OptionMulticastLoop:
		x.MulticastLoop = on
	case OptionMulticastAll:
		x.MulticastAll = on
	default:
		return false
	}
	return true
}

// noteStream keeps an option of a stream: the value that was set last.
func (x *SocketOptions) noteStream(o Option, value int) {
	for i := range x.Stream {
		if x.Stream[i].Option == o {
			x.Stream[i].Value = value
			return
		}
	}
	x.Stream = append(x.Stream, OptionValue{o, value})
}

// noteMembership adds a membership that the transport has joined, or removes one that it has left. It changes others of the group as Linux does
// (net/ipv4/igmp.c): joining a source narrows a membership of all sources, and leaving without a source ends the membership of each source.
func (x *SocketOptions) noteMembership(m Membership, join bool) {
	if !join {
		anySource := !m.Source.IsValid()
		if at := x.findMembership(m, anySource); at >= 0 {
			on := x.Groups[at].Interface
			x.Groups = slices.DeleteFunc(x.Groups, func(g Membership) bool {
				return g.Group == m.Group && g.Interface == on && (anySource || g.Source == m.Source)
			})
		}
		return
	}
	if m.Source.IsValid() {
		const anySource = false // only the membership without a source is narrowed
		if at := x.findMembership(Membership{Group: m.Group, Interface: m.Interface}, anySource); at >= 0 {
			x.Groups = slices.Delete(x.Groups, at, at+1)
		}
	}
	x.Groups = append(x.Groups, m)
}

// findMembership returns the place of a membership in the list, or -1; with anySource that of one of the group whatever its source is. A
// group that was joined on the interface of the routing table's choice (0) may be meant by naming that interface, and the other way round: the
// transport has resolved both to one interface and accepted the call.
func (x *SocketOptions) findMembership(m Membership, anySource bool) int {
	isMeant := func(g Membership) bool { return g.Group == m.Group && (anySource || g.Source == m.Source) }
	at := slices.IndexFunc(x.Groups, func(g Membership) bool { return isMeant(g) && g.Interface == m.Interface })
	if at < 0 {
		at = slices.IndexFunc(x.Groups, func(g Membership) bool { return isMeant(g) && (g.Interface == 0 || m.Interface == 0) })
	}
	return at
}
