package offload

import (
	"slices"
	"strings"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
)

// Interfaces that stand on a part's receive frames of it, and a frame that is redirected does not reach them:
//
//	macvlan, ipvlan, of any namespace    may be members of a group that we take: groups are left to the kernel, which gives them to all.
//	                                     Their unicast has addresses of their own, which nobody claims here
//	VLAN, of any namespace               has frames of its own tag. Where the device takes tags out of frames the program cannot tell them
//	                                     apart: then nothing is claimed on the device, neither tagged nor untagged
type standing struct {
	children string // macvlans and ipvlans, for paths; empty: none
	tags     string // the VLANs, where the device takes tags out; empty: the program sees tags, or there are none
}

// standingOn finds what stands on a part's interface.
func (d *driver) standingOn(p *part, s *host.Snapshot) (x standing) {
	var on, vlans []int
	if l, ok := s.LinkByName(p.Name); ok {
		vlans = append(vlans, l.Index)
		if m, ok := s.Link(l.Master); ok && m.Kind == host.KindBond {
			vlans = append(vlans, m.Index)
		}
	}
	if on = vlans; p.VLAN != 0 {
		on = nil // what stands on the parent receives no tagged frames
		if l, ok := s.LinkByName(p.On); ok {
			on = []int{l.Index}
		}
	}
	x.children = childrenOf(s, on, func(kind string) bool { return kind != host.KindVLAN })
	if p.info.TagsApart {
		x.tags = childrenOf(s, vlans, func(kind string) bool { return kind == host.KindVLAN })
	}
	return x
}

func childrenOf(s *host.Snapshot, parents []int, kind func(string) bool) string {
	var list []string
	for _, index := range parents {
		for _, c := range s.Children(index) {
			if kind(c.Kind) && !slices.Contains(list, c.String()) {
				list = append(list, c.String())
			}
		}
	}
	return strings.Join(list, ", ")
}

// reviewStanding tells whether something else stands on the part's interface now. Claims follow.
func (d *driver) reviewStanding(p *part, s *host.Snapshot) (changed bool) {
	now := d.standingOn(p, s)
	if now == p.standing {
		return false
	}
	p.standing = now
	d.table.each(func(e *entry) {
		if e.own {
			d.reclaim(e)
		}
	})
	return true
}

// claimable tells whether anything may be claimed from a steering.
func (d *driver) claimable(at steer) bool {
	return !slices.ContainsFunc(d.parts, func(p *part) bool { return p.standing.tags != "" && p.steer() == at })
}

// childrenOn are the macvlans and ipvlans on an interface.
func (d *driver) childrenOn(iface uint32) string {
	for _, p := range d.parts {
		if p.standing.children != "" && p.host == d.present(int(iface)) {
			return p.standing.children
		}
	}
	return ""
}

// childReasons are what a socket's path says of groups that are left to the kernel for children.
func (d *driver) childReasons(e *entry) (list []ring.Reason) {
	for _, g := range e.groups {
		names := d.childrenOn(g.iface)
		if names == "" {
			continue
		}
		r := ring.Reason{Code: "mcast.child", Text: "the kernel gives groups to what stands on their interface too, which a frame that is " +
			"redirected does not reach: " + names}
		if e.s.Config().RequireOffload {
			r = ring.Reason{Code: "mcast.kept", Text: "what stands on the interface of a group does not receive what comes for it, because this " +
				"socket requires offload: " + names}
		}
		if !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	return list
}

// tagsApart is the reason of sockets on a part whose frames' tags the program does not see.
func (p *part) tagsApart() ring.Reason {
	return ring.Reason{Code: "link.tags_apart", Text: p.Name + " takes VLAN tags out of received frames (ethtool: rx-vlan-offload), so that " +
		"the steering program cannot tell the frames of its VLANs apart: " + p.standing.tags}
}
