package offload

import (
	"errors"
	"fmt"
	"slices"

	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
)

// regroup makes the stack's memberships those of the socket.
func (d *driver) regroup(e *entry) error {
	e.reasons = slices.DeleteFunc(e.reasons, func(r ring.Reason) bool { return r.Code == "link.gone" })
	want, err := d.groupsOf(e, e.s.Settings().Groups, setOf(e.groups))
	if err != nil {
		return err
	}
	for _, g := range missing(e.groups, want) {
		err = errors.Join(err, d.udp.Leave(d.now, e.id, g.addr, g.iface, g.source))
	}
	for _, g := range missing(want, e.groups) {
		err = errors.Join(err, d.udp.Join(d.now, e.id, g.addr, g.iface, g.source))
	}
	e.groups = want
	return err
}

// groupsOf resolves memberships to interfaces. had are the groups that the socket has: such a one stays while its interface is gone.
func (d *driver) groupsOf(e *entry, list []ring.Membership, had map[group]bool) (want []group, err error) {
	for _, m := range list {
		a, ok := wire.AddrFrom(m.Group)
		if !ok {
			continue
		}
		g := group{addr: a}
		if m.Source.IsValid() {
			g.source, _ = wire.AddrFrom(m.Source)
		}
		index := d.nics.Present(m.Interface)
		if index == 0 {
			if at := slices.IndexFunc(e.groups, g.same); at >= 0 {
				index = d.nics.Present(int(e.groups[at].iface)) // the routing table chose when it was joined
			}
		}
		if g.iface = uint32(index); index != 0 && had[g] {
			want = append(want, g) // also while the interface is gone: it may come back
			continue
		}
		at, err := groupInterface(d.snapshot(), m.Group, index)
		switch {
		case err != nil && index != 0: // the other groups are not to suffer for it
			e.reasons = append(e.reasons, ring.Reason{Code: "link.gone",
				Text: fmt.Sprintf("group %v: interface %d is not there", m.Group, index)})
			continue
		case err != nil:
			return nil, fmt.Errorf("offload: group %v: %w", m.Group, err)
		}
		g.iface = uint32(at)
		want = append(want, g)
	}
	return want, nil
}

// FollowMembership is Follow for one group, whatever number of others the socket has: only what concerns that group is looked at.
func (d *driver) FollowMembership(s *ring.Socket, m ring.Membership) error {
	e := d.table.of(s)
	if e == nil || !e.own {
		return nil
	}
	if slices.ContainsFunc(e.reasons, func(r ring.Reason) bool { return r.Code == "link.gone" }) {
		return d.Follow(s) // the group may be the one that this is said of
	}
	g := group{}
	var ok bool
	if g.addr, ok = wire.AddrFrom(m.Group); !ok {
		return nil
	}
	if m.Source.IsValid() {
		g.source, _ = wire.AddrFrom(m.Source)
	}
	var asked []ring.Membership
	for _, x := range s.Settings().Groups {
		if x.Group == m.Group && x.Source == m.Source {
			asked = append(asked, x)
		}
	}
	var had []group
	for _, x := range e.groups {
		if x.same(g) {
			had = append(had, x)
		}
	}
	want, err := d.groupsOf(e, asked, setOf(had))
	if err != nil {
		return err
	}
	left, joined := missing(had, want), missing(want, had)
	for _, g := range left {
		err = errors.Join(err, d.udp.Leave(d.now, e.id, g.addr, g.iface, g.source))
		e.groups = slices.Delete(e.groups, slices.Index(e.groups, g), slices.Index(e.groups, g)+1)
	}
	for _, g := range joined {
		err = errors.Join(err, d.udp.Join(d.now, e.id, g.addr, g.iface, g.source))
		e.groups = append(e.groups, g)
	}
	for _, g := range slices.Concat(left, joined) {
		d.tellMember(e, g)
	}
	d.reclaimGroups(e, left, joined)
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

// missing is what of a list the other one has not.
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
