package nic

import (
	"slices"

	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/offload/steering"
)

// Status is the state of one attachment, for the paths of its sockets.
type Status struct {
	Interface  Interface
	IfIndex    int         // of the interface that has the addresses
	Places     []int       // of its links in the flat list; not to be changed
	Clock      link.Clock  // what stamps its frames
	Inactive   bool        // a member of a bond that does not send
	Why        link.Reason // why it carries nothing; empty while it does
	HandedOver bool        // it has no queue: other rings hand over what comes
	Idle       link.Reason // of queues that no ring serves, beside those that carry; empty for none
	Unguarded  link.Reason // why nothing keeps segments of TCP from the kernel while the steering program is away; empty otherwise
	// Unlisted is why the kernel's connections cannot be listed, for which no new connection is accepted while the program is away; empty
	// otherwise.
	Unlisted link.Reason
}

// Statuses lists the ring's attachments.
func (a *Attachments) Statuses() (list []Status) {
	for _, p := range a.list {
		if p.isLeaving() {
			continue
		}
		s := Status{Interface: p.Interface, IfIndex: p.ifIndex, Places: p.places[:p.count], Clock: a.clockOf(p), Inactive: p.role >= Inactive,
			Why: p.lossReason()}
		s.Unguarded, s.Unlisted = p.nic.guardReasons()
		switch {
		case s.Why.Code != "":
		case p.stacked.vlans != "":
			s.Why = p.reasonTagsRemoved()
		case p.count == 0 && p.idle.all:
			s.Why = p.idleReason()
		default:
			s.HandedOver = p.count == 0
			if p.idle.queues > 0 {
				s.Idle = p.idleReason()
			}
		}
		list = append(list, s)
	}
	return list
}

// guardReasons are Status.Unguarded and Status.Unlisted of the interface.
func (n *nic) guardReasons() (unguarded, unlisted link.Reason) {
	n.table.mu.Lock()
	defer n.table.mu.Unlock()
	return n.unguarded, n.unlisted
}

// clockOf is the clock that stamps the frames of an attachment; none while its interface is lost.
func (a *Attachments) clockOf(p *attachment) link.Clock {
	if p.count > 0 {
		return a.links[p.places[0]].Link.Path().Clock
	}
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	if p.nic.device == nil {
		return link.ClockNone
	}
	return p.nic.device.Path().Clock
}

// LostBond is a bond that carries nothing.
type LostBond struct {
	IfIndex int
	Why     link.Reason
}

// LostBonds lists the bonds that carry nothing though members may be attached: the bond was deleted, or is of a kind that is not offloaded.
func (a *Attachments) LostBonds() (list []LostBond) {
	for _, b := range a.bonds {
		if b.lost.Code != "" {
			list = append(list, LostBond{b.ifIndex, b.lost})
		}
	}
	return list
}

// Serves reports whether the frames of a claim target are those of an interface.
func (a *Attachments) Serves(t steering.Target, ifIndex int) bool {
	return slices.ContainsFunc(a.list, func(p *attachment) bool {
		return t == p.claimTarget() && a.CurrentIndex(p.ifIndex) == a.CurrentIndex(ifIndex)
	})
}

// Has reports whether an interface is one of the ring's.
func (a *Attachments) Has(ifIndex int) bool {
	return slices.ContainsFunc(a.list, func(p *attachment) bool { return p.ifIndex == ifIndex })
}

// Sends reports whether the ring can send by the interface of a claim target: it has a queue there, or the interface is lost for now.
func (a *Attachments) Sends(t steering.Target) bool {
	return !slices.ContainsFunc(a.list, func(p *attachment) bool { return p.claimTarget() == t && p.isAttached() && p.count == 0 })
}
