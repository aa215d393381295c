package nic

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// checkDevice checks whether the device of an attachment with links still carries frames, and removes the links where it does not, or where they
// hold frames that must not leave late.
func (a *Attachments) checkDevice(p *attachment, s *host.Snapshot) {
	var dead bool
	if p.lost, dead = a.inspect(p, s); dead {
		a.loseDevice(p)
	} else if a.holdsFrames(p) {
		// No call takes frames back out of a ring that the kernel reads, so the links are given up with them. The device stays: its queues are
		// opened again when the interface is up.
		if p.lost.Code == "" { // the mirror has not told yet, or the interface is up again
			p.lost = p.reasonDown()
		}
		a.loseLinks(p)
	}
}

// inspect reports why an attachment carries nothing, and whether its device is dead: links and device are to be closed.
func (a *Attachments) inspect(p *attachment, s *host.Snapshot) (why link.Reason, dead bool) {
	n := p.nic
	a.table.mu.Lock()
	dev, serial, index := n.device, n.serial, n.ifIndex
	if n.syncAddresses() != nil { // the next check tries again
		a.stats.AddressFailures++
	}
	a.table.mu.Unlock()
	l, here := s.LinkByName(p.Name)
	switch {
	case !here, l.Index != index && serial == p.serial: // another interface has the name, and the table still has the device of the old one
		return p.reasonDeleted(), true
	case dev == nil, serial != p.serial: // another ring has noticed the loss before, and the device may be there again
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

// holdsFrames reports whether the attachment's links hold frames that must not leave any more, because they would leave late: frames that the
// interface refused while it was down, also if it is up again, and frames that the kernel has not read while the interface carries nothing.
func (a *Attachments) holdsFrames(p *attachment) bool {
	if p.refusedFrames && p.count > 0 {
		return true
	}
	for _, place := range p.places[:p.count] {
		if p.lost.Code != "" && a.links[place].Link.Pending() {
			return true
		}
	}
	return false
}

// checkClosed starts opening an attachment without links again, if its interface is there and up and the time for the next try has come. That is
// now if the interface was not there, not up or without carrier before (retryAt is Never), or if its XDP program has changed since the last try.
func (a *Attachments) checkClosed(p *attachment, s *host.Snapshot) {
	l, here := s.LinkByName(p.Name)
	switch {
	case !here:
		p.lost, p.retryAt = p.reasonDeleted(), clock.Never // until the mirror tells
	case !l.Up(): // nothing would come, and the addresses are not back yet
		p.lost, p.retryAt = p.reasonDown(), clock.Never
	case !l.Carrier() && p.bond == nil:
		p.lost, p.retryAt = p.reasonNoCarrier(), clock.Never
	case p.state == Closed && (a.now >= p.retryAt || p.retryAt == clock.Never || l.Program != p.program):
		a.startOpening(p)
	}
}

// checkParent checks the interface that has the attachment's addresses (On), where that is another one than the device's: it may be down, be
// deleted, or have been made again with another index. It returns why the attachment carries nothing, empty if it does.
func (a *Attachments) checkParent(p *attachment, s *host.Snapshot) link.Reason {
	if p.On == p.Name {
		return link.Reason{}
	}
	l, here := s.LinkByName(p.On)
	switch {
	case !here:
		return p.reasonParentDeleted()
	case !l.Up():
		return link.Reason{Code: "link.down", Text: "interface " + p.On + " is down"}
	case l.Index == p.ifIndex:
		return link.Reason{}
	}
	old := p.ifIndex
	if _, err := a.updateIndex(p); err != nil {
		return p.reasonParentDeleted()
	}
	a.onInterfaceRemade(p, old)
	return link.Reason{}
}

// updateIndex describes the interface that has the attachment's addresses, and notes its index. If that is another than before, the driver gets
// the new description at each place that has a link; an attachment without a queue has none. describe gives each place the member's role:
// notifyRoles makes the further queues of an active member ActiveQueue again. On an error nothing is changed.
func (a *Attachments) updateIndex(p *attachment) (Link, error) {
	l, err := a.describe(p)
	if err != nil || l.IfIndex == p.ifIndex {
		return l, err
	}
	p.ifIndex = l.IfIndex
	for _, place := range p.places[:p.count] {
		now, old := l, &a.links[place]
		now.Link, now.Base, now.MTU = old.Link, old.Base, min(l.MTU, old.Link.Info().MTU)
		a.links[place] = now
		a.events.LinkRenumbered(place, &now)
	}
	if p.bond != nil {
		a.notifyRoles(p)
	}
	return l, nil
}

// onInterfaceRemade does nothing while the index of the attachment's interface is still old. With another one the interface was deleted and made
// again under the same name. The kernel has dropped the memberships and device bindings of the sockets; a job of the driver makes them again.
// Until it has ended the attachment counts as lost: a program that sees the interface back finds the groups joined.
func (a *Attachments) onInterfaceRemade(p *attachment, old int) {
	if j := a.renumberInterface(p.On, old, p.ifIndex); j != nil {
		p.rejoin = j
		for _, place := range p.places[:p.count] {
			a.events.LinkDown(place, Down{Link: true, VLAN: p.parentLost.Code != ""})
		}
	}
}

// renumberInterface notes that an interface with index old has index now, for CurrentIndex, and tells the driver. It returns the driver's job
// that makes memberships and device bindings again, nil for none.
func (a *Attachments) renumberInterface(ifName string, old, now int) *Job {
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

// CurrentIndex is the index that an interface has now; another one than ifIndex if it was deleted and made again since.
func (a *Attachments) CurrentIndex(ifIndex int) int {
	if now, ok := a.aliases[ifIndex]; ok {
		return now
	}
	return ifIndex
}
