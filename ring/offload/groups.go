package offload

import (
	"errors"
	"fmt"
	"slices"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload/shadow"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// updateMemberships makes the stack's memberships those that the application has joined: it resolves them to interfaces, and leaves and joins
// the difference.
func (d *driver) updateMemberships(e *entry) error {
	e.reasons = slices.DeleteFunc(e.reasons, func(r ring.Reason) bool { return r.Code == "link.gone" })
	had := slices.Collect(d.joinedGroups(e))
	want, err := d.groupsOf(e, ring.OptionsOf(e.s).Groups, had)
	if err != nil {
		return err
	}
	for _, g := range missing(had, want) {
		err = errors.Join(err, d.udp.Leave(d.turn.now, e.id, g.Addr, g.IfIndex, g.Source))
	}
	for _, g := range missing(want, had) {
		err = errors.Join(err, d.udp.Join(d.turn.now, e.id, g.Addr, g.IfIndex, g.Source))
	}
	return err
}

// groupsOf resolves memberships to interfaces. joined are the groups that the socket has already, of those that list is of: such a group stays
// while its interface is deleted.
func (d *driver) groupsOf(e *entry, list []ring.Membership, joined []shadow.Group) (want []shadow.Group, err error) {
	had := setOf(joined)
	for _, m := range list {
		g, ok := shadow.GroupOf(m)
		if !ok {
			continue
		}
		index := d.nics.CurrentIndex(m.Interface)
		if index == 0 {
			if at := slices.IndexFunc(joined, g.Same); at >= 0 {
				index = d.nics.CurrentIndex(int(joined[at].IfIndex)) // the routing table chose when it was joined
			}
		}
		if g.IfIndex = uint32(index); index != 0 && had[g] {
			want = append(want, g) // also while the interface is gone: it may come back
			continue
		}
		at, err := groupInterface(d.below.snapshot(), m.Group, index)
		switch {
		case err != nil && index != 0: // the other groups are joined all the same
			e.reasons = append(e.reasons, ring.Reason{Code: "link.gone",
				Text: fmt.Sprintf("group %v: interface %d is not there", m.Group, index)})
			continue
		case err != nil:
			return nil, fmt.Errorf("offload: group %v: %w", m.Group, err)
		}
		g.IfIndex = uint32(at)
		want = append(want, g)
	}
	return want, nil
}

// ChangeMembership joins or leaves a group in the kernel: with the socket's descriptor, or with a further one when that has no room. Not
// for Poll.
func (d *driver) ChangeMembership(s *ring.Socket, m ring.Membership, join bool) error {
	if d.below.memoryHost != nil {
		return d.below.memoryHost.SetMembership(s, m, join)
	}
	return kernel.NameLimit(s, m, d.setMembership(s, m, join))
}

// setMembership is ChangeMembership with the kernel's own errors. A socket that the stack does not carry has no membership sockets: its
// descriptor alone joins.
func (d *driver) setMembership(s *ring.Socket, m ring.Membership, join bool) error {
	d.ties.await() // their jobs join groups on the same descriptors
	e := d.table.of(s)
	g, ok := shadow.GroupOf(m)
	if e == nil || !e.inStack || !ok {
		return d.below.system.Kernel.SetMembership(kernel.FD(s), m.Group, m.Interface, m.Source, join)
	}
	if !join {
		return e.groups.Leave(g)
	}
	resolved := g.IfIndex
	if resolved == 0 {
		at, err := groupInterface(d.below.snapshot(), m.Group, 0)
		if err != nil {
			return err
		}
		resolved = uint32(at)
	}
	return e.groups.Join(g, resolved, d.joinedGroups(e))
}

// MembershipChanged is SocketChanged for one group that was joined or left, whose other memberships of this group may have changed with it: its
// cost does not grow with the socket's other groups.
func (d *driver) MembershipChanged(s *ring.Socket, m ring.Membership) error {
	e := d.table.of(s)
	if e == nil || !e.inStack {
		return nil
	}
	if e.hasReason("link.gone") {
		return d.SocketChanged(s) // the group may be the one that this is said of
	}
	g, ok := shadow.GroupOf(m)
	if !ok {
		return nil
	}
	var asked []ring.Membership
	for _, x := range ring.OptionsOf(s).Groups {
		if x.Group == m.Group {
			asked = append(asked, x)
		}
	}
	var had []shadow.Group
	for x := range d.joinedGroups(e) {
		if x.Addr == g.Addr {
			had = append(had, x)
		}
	}
	want, err := d.groupsOf(e, asked, had)
	if err != nil {
		return err
	}
	left, joined := missing(had, want), missing(want, had)
	for _, g := range left {
		err = errors.Join(err, d.udp.Leave(d.turn.now, e.id, g.Addr, g.IfIndex, g.Source))
	}
	for _, g := range joined {
		err = errors.Join(err, d.udp.Join(d.turn.now, e.id, g.Addr, g.IfIndex, g.Source))
	}
	for _, g := range slices.Concat(left, joined) {
		d.publishMember(e, g)
	}
	d.updateGroupClaims(e, left, joined)
	return err
}

// setOf is a list as a set.
func setOf[T comparable](list []T) map[T]bool {
	set := make(map[T]bool, len(list))
	for _, x := range list {
		set[x] = true
	}
	return set
}

// missing lists the elements of list that are not in other.
func missing[T comparable](list, other []T) (rest []T) {
	if len(list) == 0 {
		return nil
	}
	has := setOf(other)
	for _, x := range list {
		if !has[x] {
			rest = append(rest, x)
		}
	}
	return rest
}
