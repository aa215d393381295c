package udp

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// A membership makes a socket receive a group on an interface, through a filter of sources (RFC 9776 section 3). It is an entry of
// the table members whose value is the filter's mode, and one entry more for each source in its list:
//
//	group | interface | socket | 0        include or exclude
//	group | interface | socket | source   listed

type membership struct {
	group   wire.Addr
	iface   uint32
	exclude bool
	sources []wire.Addr
}

const (
	modeInclude int32 = iota // the listed sources only
	modeExclude              // all but the listed sources
)

// Errors of memberships, with the errno that the kernel returns.
var (
	ErrMember    = errors.New("udp: is a member already, or with the other kind of filter") // EADDRINUSE, EINVAL
	ErrNotMember = errors.New("udp: is not a member")                                       // EADDRNOTAVAIL
)

func groupKey(group wire.Addr, iface uint32) uint64 {
	return uint64(group.Uint32())<<32 | uint64(iface)
}

func memberKey(id ID, source wire.Addr) uint64 {
	return uint64(uint32(id))<<32 | uint64(source.Uint32())
}

// Join makes a socket a member of a group on an interface: of all sources when source is zero, else of this one, which may be repeated
// for others.
func (t *Table) Join(id ID, group wire.Addr, iface uint32, source wire.Addr) error {
	var m *membership
	if t.members.find(groupKey(group, iface), memberKey(id, wire.Addr{})) != none { // otherwise no search through the socket's many memberships
		m = t.membership(id, group, iface)
	}
	switch {
	case !group.IsMulticast():
		return fmt.Errorf("udp: join: group %v: %w", group, ErrEndpoint)
	case m == nil:
		t.joined[id] = append(t.joined[id], membership{group: group, iface: iface, exclude: source.IsZero()})
		mode := modeInclude
		if source.IsZero() {
			mode = modeExclude
		}
		t.members.set(groupKey(group, iface), memberKey(id, wire.Addr{}), mode)
		t.members.set(groupKey(group, iface), countKey, max(t.members.find(groupKey(group, iface), countKey), 0)+1) // none is -1
	case source.IsZero() || m.exclude || slices.Contains(m.sources, source):
		return fmt.Errorf("udp: join %v source %v: %w", group, source, ErrMember)
	}
	if !source.IsZero() {
		if m == nil {
			m = &t.joined[id][len(t.joined[id])-1]
		}
		m.sources = append(m.sources, source)
		t.members.set(groupKey(group, iface), memberKey(id, source), 0)
	}
	return nil
}

// Leave undoes Join with the same arguments. A zero source leaves the group whatever the filter is.
func (t *Table) Leave(id ID, group wire.Addr, iface uint32, source wire.Addr) error {
	m := t.membership(id, group, iface)
	if m == nil || !source.IsZero() && (m.exclude || !slices.Contains(m.sources, source)) {
		return fmt.Errorf("udp: leave %v source %v: %w", group, source, ErrNotMember)
	}
	if !source.IsZero() && len(m.sources) > 1 {
		t.members.remove(groupKey(group, iface), memberKey(id, source))
		m.sources = slices.DeleteFunc(m.sources, func(a wire.Addr) bool { return a == source })
		return nil
	}
	t.removeEntries(id, m)
	t.joined[id] = slices.DeleteFunc(t.joined[id], func(m membership) bool { return m.group == group && m.iface == iface })
	return nil
}

// Block adds a source to those that a member of all sources does not receive (IP_BLOCK_SOURCE).
func (t *Table) Block(id ID, group wire.Addr, iface uint32, source wire.Addr) error {
	m := t.membership(id, group, iface)
	switch {
	case m == nil:
		return fmt.Errorf("udp: block %v: %w", source, ErrNotMember)
	case !m.exclude || slices.Contains(m.sources, source):
		return fmt.Errorf("udp: block %v: %w", source, ErrMember)
	}
	m.sources = append(m.sources, source)
	t.members.set(groupKey(group, iface), memberKey(id, source), 0)
	return nil
}

// Unblock undoes Block (IP_UNBLOCK_SOURCE).
func (t *Table) Unblock(id ID, group wire.Addr, iface uint32, source wire.Addr) error {
	m := t.membership(id, group, iface)
	if m == nil || !m.exclude || !slices.Contains(m.sources, source) {
		return fmt.Errorf("udp: unblock %v: %w", source, ErrNotMember)
	}
	t.members.remove(groupKey(group, iface), memberKey(id, source))
	m.sources = slices.DeleteFunc(m.sources, func(a wire.Addr) bool { return a == source })
	return nil
}

// Joined reports whether any socket is a member of the group on the interface.
func (t *Table) Joined(group wire.Addr, iface uint32) bool {
	return t.members.find(groupKey(group, iface), countKey) > 0
}

// Membership is what one Join has made.
type Membership struct {
	Group     wire.Addr
	Interface uint32
	Source    wire.Addr // zero: all
}

// Memberships are a socket's, those of one group on an interface in a row. The table must not change meanwhile.
func (t *Table) Memberships(id ID) iter.Seq[Membership] {
	return func(yield func(Membership) bool) {
		for i := range t.joined[id] {
			m := &t.joined[id][i]
			if m.exclude { // the sources are those that Block has named
				if !yield(Membership{Group: m.group, Interface: m.iface}) {
					return
				}
				continue
			}
			for _, s := range m.sources {
				if !yield(Membership{m.group, m.iface, s}) {
					return
				}
			}
		}
	}
}

// Filter is the filters of all members of a group on an interface merged (RFC 9776 section 3.2): with exclude, sources are those that no
// member receives; else those that at least one member receives. The sources are sorted. It walks all sockets: for IGMP, not for packets.
func (t *Table) Filter(group wire.Addr, iface uint32) (exclude bool, sources []wire.Addr) {
	var include, blocked []wire.Addr
	for id := range t.joined {
		m := t.membership(ID(id), group, iface)
		switch {
		case m == nil:
		case !m.exclude:
			include = append(include, m.sources...)
		case !exclude:
			exclude, blocked = true, slices.Clone(m.sources)
		default:
			blocked = slices.DeleteFunc(blocked, func(a wire.Addr) bool { return !slices.Contains(m.sources, a) })
		}
	}
	if sources = include; exclude {
		sources = slices.DeleteFunc(blocked, func(a wire.Addr) bool { return slices.Contains(include, a) })
	}
	slices.SortFunc(sources, func(a, b wire.Addr) int { return int(int64(a.Uint32()) - int64(b.Uint32())) })
	return exclude, slices.Compact(sources)
}

// Groups appends the groups that have members on the interface, sorted.
func (t *Table) Groups(iface uint32, dst []wire.Addr) []wire.Addr {
	for _, list := range t.joined {
		for i := range list {
			if list[i].iface == iface && !slices.Contains(dst, list[i].group) {
				dst = append(dst, list[i].group)
			}
		}
	}
	slices.SortFunc(dst, func(a, b wire.Addr) int { return int(int64(a.Uint32()) - int64(b.Uint32())) })
	return dst
}

// PassesFilter reports whether a socket's memberships let it receive a datagram to a group: ip_mc_sf_allow (net/ipv4/igmp.c).
func (t *Table) PassesFilter(id ID, f *Flow) bool {
	p := groupKey(f.Target, f.Interface)
	mode := t.members.find(p, memberKey(id, wire.Addr{}))
	if mode == none {
		return t.sockets[id].flags&flagMulticastAll != 0
	}
	listed := t.members.find(p, memberKey(id, f.Source)) != none
	return listed != (mode == modeExclude)
}

// membership is a socket's membership of a group on an interface; nil if it is no member.
func (t *Table) membership(id ID, group wire.Addr, iface uint32) *membership {
	list := t.joined[id]
	for i := range list {
		if list[i].group == group && list[i].iface == iface {
			return &list[i]
		}
	}
	return nil
}

// removeEntries removes the entries of a membership from the table members, and counts the group's members one less.
func (t *Table) removeEntries(id ID, m *membership) {
	p := groupKey(m.group, m.iface)
	t.members.remove(p, memberKey(id, wire.Addr{}))
	for _, s := range m.sources {
		t.members.remove(p, memberKey(id, s))
	}
	if n := t.members.find(p, countKey); n > 1 {
		t.members.set(p, countKey, n-1)
	} else {
		t.members.remove(p, countKey)
	}
}

// leaveAll ends all memberships of a socket that is removed.
func (t *Table) leaveAll(id ID) {
	for i := range t.joined[id] {
		t.removeEntries(id, &t.joined[id][i])
	}
	t.joined[id] = nil
}
