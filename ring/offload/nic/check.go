package nic

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// checkDevice looks whether the device of an attachment with links still carries frames.
func (a *Attachments) checkDevice(p *attachment, s *host.Snapshot) {
	var dead bool
	if p.lost, dead = a.inspect(p, s); dead {
		a.loseLinks(p, true)
	} else if a.holdsFrames(p) {
		// No call takes frames back out of a ring that the kernel reads, so the links are given up with them. The device stays: its queues are
		// opened again when the interface is up.
		if p.lost.Code == "" { // the mirror has not told yet, or the interface is up again
			p.lost = p.reasonDown()
		}
		a.loseLinks(p, false)
	}
}

// inspect reports why an attachment carries nothing, and whether its device is dead: links and device are to be closed.
func (a *Attachments) inspect(p *attachment, s *host.Snapshot) (why link.Reason, dead bool) {
	n := p.nic
	a.table.mu.Lock()
	dev, serial, index := n.device, n.serial, n.ifIndex
	if n.syncAddresses() != nil {
		a.stats.AddressFailures++
	}
	a.table.mu.Unlock()
	l, here := s.LinkByName(p.Name)
	switch {
	case !here, l.Index != index && serial == p.serial:
		return p.reasonDeleted(), true
	case dev == nil, serial != p.serial:
		return link.Reason{Code: "link.detached", Text: "the steering program is not on " + p.Name + " any more"}, true
	}
	err := dev.Check()
	for _, place := range p.places[:p.count] {
		if err == nil {
			err = a.links[place].Link.Check()
		}
	}
	switch {
	case err != nil:
		return link.Reason{Code: "link.detached", Text: err.Error()}, true
	case !l.Up():
		return p.reasonDown(), false
	case !l.Carrier() && p.bond == nil: // of members the bond's own monitoring decides
		return p.reasonNoCarrier(), false
	}
	return link.Reason{}, false
}

// holdsFrames reports whether the attachment's links hold frames that are not to leave any more: the interface was down, or is, or has no
// carrier, and the kernel has not read them.
func (a *Attachments) holdsFrames(p *attachment) bool {
	if p.holdsBack && p.count > 0 {
		return true
	}
	for _, place := range p.places[:p.count] {
		if p.lost.Code != "" && a.links[place].Link.Pending() {
			return true
		}
	}
	return false
}

// checkClosed looks whether an attachment without links can be opened again.
func (a *Attachments) checkClosed(p *attachment, s *host.Snapshot) {
	l, here := s.LinkByName(p.Name)
	switch {
	case !here:
		p.lost, p.next = p.reasonDeleted(), clock.Never // until the mirror tells
	case !l.Up(): // nothing would come, and the addresses are not back yet
		p.lost, p.next = p.reasonDown(), clock.Never
	case !l.Carrier() && p.bond == nil:
		p.lost, p.next = p.reasonNoCarrier(), clock.Never
	case p.state == Closed && (a.now >= p.next || p.next == clock.Never || l.Program != p.program):
		a.startOpening(p)
	}
}

// checkOn looks at the interface that has the attachment's addresses, where that is not the device: it may be down, be gone, or have another
// number.
func (a *Attachments) checkOn(p *attachment, s *host.Snapshot) link.Reason {
	if p.On == p.Name {
		return link.Reason{}
	}
	l, here := s.LinkByName(p.On)
	switch {
	case !here:
		return p.reasonOnDeleted()
	case !l.Up():
		return link.Reason{Code: "link.down", Text: "interface " + p.On + " is down"}
	case l.Index == p.ifIndex:
		return link.Reason{}
	}
	old := p.ifIndex
	for _, place := range p.places[:p.count] {
		now, err := a.describe(p)
		if err != nil {
			return p.reasonOnDeleted()
		}
		now.Link, now.Base = a.links[place].Link, a.links[place].Base
		a.links[place], p.ifIndex = now, now.IfIndex
		a.events.LinkRenumbered(place, &now)
	}
	if p.bond != nil {
		a.tellRoles(p)
	}
	if p.ifIndex != old {
		a.renumber(p, old)
	}
	return link.Reason{}
}

// renumber follows an interface that was deleted and made again: it has the same name and another number. The kernel forgot the
// memberships and ties of its sockets with the old one; the driver makes them again on the new, and until that is done the attachment counts as
// lost: a program that sees the interface back finds the groups joined.
func (a *Attachments) renumber(p *attachment, old int) {
	if j := a.renumbered(p.On, old, p.ifIndex); j != nil {
		p.rejoin = j
		for _, place := range p.places[:p.count] {
			a.events.LinkDown(place, true, p.parentLost.Code != "")
		}
	}
}

// renumbered is renumber for an interface by its name and numbers. It returns the job that is under way, if any.
func (a *Attachments) renumbered(ifName string, old, now int) *Job {
	if now == old || old == 0 {
		return nil
	}
	if a.aliases == nil {
		a.aliases = map[int]int{}
	}
	for from, to := range a.aliases {
		if to == old {
			a.aliases[from] = now
		}
	}
	a.aliases[old] = now
	return a.events.Renumbered(ifName, old, now)
}

// Present is the number that an interface has now.
func (a *Attachments) Present(ifIndex int) int {
	if now, ok := a.aliases[ifIndex]; ok {
		return now
	}
	return ifIndex
}
