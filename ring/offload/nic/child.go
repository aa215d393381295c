package nic

import (
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Several attachments may have one device: eth0 and eth0.5, eth0.5 and eth0.6. The first, the base, has the links; the others, its
// children, have a place in the flat list for each of them, by which they send. What comes in is told apart by its tag (Link.Base).
//
//	base    eth0    links[0] = queue 0           links[1] = queue 1
//	child   eth0.5  links[2] = childLink, of 0   links[3] = childLink, of 1

// childLink is a link at a place of a child: it sends. The base's place does all else.
type childLink struct{ link.Link }

func (childLink) Receive([]link.Frame) int                   { return 0 }
func (childLink) Complete([]link.Done) int                   { return 0 }
func (childLink) Unsent() int                                { return 0 }
func (childLink) FD() int                                    { return -1 }
func (childLink) Arm() bool                                  { return false }
func (childLink) Disarm()                                    {}
func (childLink) Stats() link.Stats                          { return link.Stats{} }
func (childLink) Counters(dst []link.Counter) []link.Counter { return dst }
func (childLink) Close() error                               { return nil }

// IsChildLink reports whether a link only sends by another one of the flat list, which has its counters.
func IsChildLink(l link.Link) bool {
	_, ok := l.(childLink)
	return ok
}

// alignChildren makes the places of an attachment's children agree with its links, after those were opened or removed.
func (a *Attachments) alignChildren(base *attachment) {
	for _, p := range a.list {
		if p.base != base || p.isLeaving() {
			continue
		}
		if p.isAttached() && (p.serial != base.serial || !base.isAttached()) { // its places are of links that base has no more
			a.removeLinks(p)
			p.move(Closed)
		}
		p.idle, p.reportedCount, p.serial = base.idle, base.reportedCount, base.serial
		if p.lost = base.lost; base.isAttached() {
			p.parentLost = a.addChildLinks(p)
		}
	}
}

// addChildLinks gives a child a place for each link of its base that it has none for yet. It returns why the child carries nothing, empty if
// it does.
func (a *Attachments) addChildLinks(p *attachment) link.Reason {
	if p.info = p.base.info; !p.isAttached() {
		p.move(Attached)
	}
	if p.count < p.base.count || p.ifIndex == 0 || p.On == p.Name { // else checkParent follows the index
		old := p.ifIndex
		why := a.followBase(p)
		a.onInterfaceRemade(p, old) // after an error too: the next call finds the new index noted
		if why.Code != "" {
			return why
		}
	}
	s := a.table.config.Host.Snapshot()
	p.changed = a.checkStacked(p, s) || p.changed
	if p.bond != nil {
		a.notifyRoles(p)
	}
	if _, ok := s.LinkByName(p.On); !ok {
		return p.reasonParentDeleted()
	}
	return link.Reason{}
}

// followBase notes the index of a child's interface, and adds the places that its base has more. It returns why it could not, else an empty
// reason.
func (a *Attachments) followBase(p *attachment) link.Reason {
	l, err := a.updateIndex(p)
	if err != nil {
		return p.reasonParentDeleted()
	}
	for p.count < p.base.count {
		at := p.base.places[p.count]
		l.Link, l.Base = childLink{a.links[at].Link}, at
		if err := a.addLink(p, l); err != nil {
			return link.Reason{Code: "link.detached", Text: err.Error()}
		}
	}
	return link.Reason{}
}

// checkChild is checkDevice for a child: it follows its base.
func (a *Attachments) checkChild(p *attachment) {
	if p.serial != p.base.serial || p.isAttached() != p.base.isAttached() || p.count != p.base.count {
		a.alignChildren(p.base)
	}
	if p.lost = p.base.lost; p.isAttached() {
		p.parentLost = a.addChildLinks(p)
	}
}
