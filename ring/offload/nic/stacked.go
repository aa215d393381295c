package nic

import (
	"slices"
	"strings"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/offload/steering"
)

// Interfaces that stand on an attachment's interface receive frames of it, and a frame that is redirected does not reach them:
//
//	macvlan, ipvlan, of any namespace    may be members of a group that a socket of ours joins: groups are left to the kernel, which gives
//	                                     them to all. Their unicast has addresses of their own, which no socket here claims
//	VLAN, of any namespace               has frames of its own tag. Where the device takes tags out of frames the program cannot tell them
//	                                     apart: then nothing is claimed on the device, neither tagged nor untagged
type stacked struct {
	macvlans string // macvlans and ipvlans, for paths; empty: none
	vlans    string // the VLANs, where the device takes tags out; empty: the program sees tags, or there are none
}

// findStacked names the macvlans, ipvlans and VLANs that stand on an attachment's interface.
func findStacked(p *attachment, s *host.Snapshot) (x stacked) {
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
	x.macvlans = childNames(s, on, func(kind string) bool { return kind != host.KindVLAN })
	if p.info.TagsApart {
		x.vlans = childNames(s, vlans, func(kind string) bool { return kind == host.KindVLAN })
	}
	return x
}

// childNames lists the interfaces of certain kinds that stand on one of the parents, for a sentence.
func childNames(s *host.Snapshot, parents []int, kind func(string) bool) string {
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

// checkStacked reports whether other interfaces stand on the attachment's now than before, and if so has the driver make its claims again.
func (a *Attachments) checkStacked(p *attachment, s *host.Snapshot) (changed bool) {
	now := findStacked(p, s)
	if now == p.stacked {
		return false
	}
	p.stacked = now
	a.events.ClaimsChanged()
	return true
}

// CanClaim reports whether flows may be claimed at a target: not where the device takes VLAN tags out of frames and has VLANs.
func (a *Attachments) CanClaim(t steering.Target) bool {
	return !slices.ContainsFunc(a.list, func(p *attachment) bool { return p.stacked.vlans != "" && p.claimTarget() == t })
}

// StackedOn names the macvlans and ipvlans on an interface.
func (a *Attachments) StackedOn(ifIndex int) string {
	for _, p := range a.list {
		if p.stacked.macvlans != "" && p.ifIndex == a.CurrentIndex(ifIndex) {
			return p.stacked.macvlans
		}
	}
	return ""
}

// reasonTagsRemoved is why an attachment carries nothing whose frames' tags the steering program does not see.
func (p *attachment) reasonTagsRemoved() link.Reason {
	return link.Reason{Code: "link.tags_apart", Text: p.Name + " takes VLAN tags out of received frames (ethtool: rx-vlan-offload), so that " +
		"the steering program cannot tell the frames of its VLANs apart: " + p.stacked.vlans}
}
