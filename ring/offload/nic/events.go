package nic

import (
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/offload/steering"
	"github.com/socketxtreme/socketxtreme/udp"
)

// Link describes a link at a place of the flat list to the driver.
type Link struct {
	Link     link.Link
	IfIndex  int // of the interface that has the addresses
	MAC      [6]byte
	VLAN     uint16 // of the frames' tag; 0: untagged
	MTU      int
	Checksum udp.Policy
	Role     Role
	Base     int  // place of the link by which its frames come: its own, or, for a childLink, its base's
	Fresh    bool // the attachment has had no link at the place before: counts start at zero
}

// Down says what a link does not carry; the zero value: it carries all.
type Down struct {
	Link bool // it carries nothing
	VLAN bool // nothing with its place's tag, because the VLAN's interface is down
}

// Events are the calls that a ring's attachments make to its driver, on the ring's goroutine, from within Add, Check and Close. None of them may
// wait for the kernel's configuration lock.
type Events interface {
	// LinkAdded: the place carries frames by a link that has just been started. On an error the link is closed and the attachment tried again.
	LinkAdded(place int, l *Link) error
	// LinkRemoved: nothing comes or goes by the place any more. The link is stopped afterwards, and closed by a job.
	LinkRemoved(place int, l link.Link)
	// LinkStopped: the link is stopped, and its counters stay as they are.
	LinkStopped(place int, l link.Link)
	// LinkClosed: what the link has not sent comes back by its Complete.
	LinkClosed(l link.Link)
	// LinkDown: what the link carries has changed, or is told again.
	LinkDown(place int, d Down)
	// LinkRole: what the link is to its bond has changed.
	LinkRole(place int, r Role)
	// LinkRenumbered: the interface that has its addresses was made again, with another number.
	LinkRenumbered(place int, l *Link)
	// TargetAdded: flows can be claimed there. The driver claims all that its sockets want; if it returns an error it has claimed none.
	TargetAdded(t steering.Target) error
	// TargetRemoved: the driver releases its claims there.
	TargetRemoved(t steering.Target)
	// ClaimsChanged: what may be claimed has changed, because other interfaces stand on one, or do no longer.
	ClaimsChanged()
	// Renumbered: an interface was deleted and made again. The job, unless nil, makes the sockets' ties to it again.
	Renumbered(ifName string, old, now int) *Job
	// PathsChanged: the paths of sockets on these interfaces have changed.
	PathsChanged(ifIndexes []int)
}

// notifyRoles tells the driver the role of each of the attachment's links: of an active member's queues the first one sends, the others receive.
func (a *Attachments) notifyRoles(p *attachment) {
	r := p.role
	for _, place := range p.places[:p.count] {
		a.links[place].Role = r
		a.events.LinkRole(place, r)
		if r == Active {
			r = ActiveQueue
		}
	}
}
