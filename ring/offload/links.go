package offload

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/offload/steering"
)

// attachments is the driver as package nic sees it: what happens to the links of its interfaces, it passes on to the stack, the list that FD
// waits on, and the claims.
type attachments struct{ *driver }

var _ nic.Events = attachments{}

// AddInterface attaches a ring to one more interface. The flows of its sockets that are on that interface
// are claimed there too, groups that they joined on it while the kernel had them included. On an error the ring is as
// it was. It may wait, unless nic.Interface.Later is set. For the driver's owner, or anyone before the first Poll.
func AddInterface(drv ring.Driver, i nic.Interface) error {
	d, ok := drv.(*driver)
	switch {
	case !ok:
		return fmt.Errorf("offload: add interface: a driver of kind %q: %w", drv.Kind(), unix.EINVAL)
	case d.sleep.isClosed:
		return fmt.Errorf("offload: add interface: %w", ring.ErrClosed)
	}
	if err := d.nics.Add(i); err != nil {
		return err
	}
	d.shadows.LookSoon()
	d.shadows.HoldLinks() // until what the shadows have of the flows is read: it is older
	d.turn.readSoon()     // it also looks whether to check the attachments
	d.notePaths()
	return nil
}

// AwaitInterface waits until an interface that AddInterface opens later, with the name On, is open or could not be opened. For the driver's
// owner, not in Poll.
func AwaitInterface(drv ring.Driver, on string) {
	if d, ok := drv.(*driver); ok && !d.sleep.isClosed {
		d.nics.AwaitOpening(on)
	}
}

// notePaths has the next turn raise PATH for the sockets to which packets come by an interface that was just added: datagram sockets on all
// addresses without groups. A socket that is still to get its ring is not among them.
func (d *driver) notePaths() {
	d.table.each(func(e *entry) {
		if e.inStack && e.boundIf == 0 && e.s.LocalAddr().Addr().IsUnspecified() && !d.hasGroups(e) {
			d.paths.note(e)
		}
	})
}

// interfaceOf describes a link to the IP stack. A link and the child links that send by it are one wire there: its number is the place of that
// link, plus one, because 0 is none.
func interfaceOf(l *nic.Link) ip.Interface {
	return ip.Interface{Index: l.IfIndex, MAC: wire.MAC(l.MAC), VLAN: l.VLAN, MTU: l.MTU, Checksum: l.Checksum, Member: memberOf[l.Role],
		Wire: l.Base + 1}
}

// memberOf is a link's role in a bond in the words of the IP stack.
var memberOf = [...]ip.Member{nic.NoBond: ip.NoMember, nic.Active: ip.MemberActive, nic.ActiveQueue: ip.MemberQueue,
	nic.Inactive: ip.MemberInactive, nic.Backup: ip.MemberBackup}

// LinkAdded puts a link at its place: in the driver's list, in the stack, and in the list that a sleep waits on.
func (d attachments) LinkAdded(place int, l *nic.Link) error {
	in := interfaceOf(l)
	if place == len(d.links) {
		if err := d.ip.AddInterface(in); err != nil {
			return fmt.Errorf("offload: %s: %w", l.Link.Info().Name, err)
		}
		d.links = append(d.links, placedLink{})
	} else if err := in.Validate(); err != nil { // AddInterface does it for a new place
		return fmt.Errorf("offload: %s: %w", l.Link.Info().Name, err)
	}
	x := &d.links[place]
	if l.Fresh {
		x.former = formerCounts{}
	}
	x.Link, x.Index, x.VLAN, x.Checksum = l.Link, l.IfIndex, l.VLAN, l.Checksum
	x.tap.Close()
	x.tap = d.config.Record.Tap(l.Link, d.pool)
	x.flushFailed, x.heldBack = false, false
	d.ip.Renew(place, in) // also marks a place up that LinkRemoved has marked down
	if err := d.sleep.addLink(place, l.Link); err != nil {
		x.Link = absentFor(l.Link)
		d.ip.SetDown(place, true)
		return fmt.Errorf("offload: %w", err)
	}
	d.shadows.HoldLinks() // until what the shadows have of the flows is read: it is older
	return nil
}

// LinkRemoved puts an absent link at the place.
func (d attachments) LinkRemoved(place int, l link.Link) {
	d.ip.SetDown(place, true)
	d.sleep.removeLink(l)
	d.links[place].Link = absentFor(l)
}

// LinkStopped keeps what the link has counted.
func (d attachments) LinkStopped(place int, l link.Link) { d.links[place].former.add(l) }

// LinkClosed takes back the packets with a token that the link has not sent: Reap reports them.
func (d attachments) LinkClosed(l link.Link) {
	for {
		n := l.Complete(d.burst.dones[:])
		for j := range d.burst.dones[:n] {
			if d.streamFrame(d.burst.dones[j].Token) {
				continue
			}
			d.flights.endLater(d.burst.dones[j].Token, d.burst.dones[j].Packet, unix.ENETDOWN)
		}
		if n == 0 {
			return
		}
	}
}

// LinkDown tells the stack whether a link, or the VLAN on it, carries nothing now.
func (d attachments) LinkDown(place int, down nic.Down) {
	d.ip.SetDown(place, down.Link)
	d.ip.SetVLANDown(place, down.VLAN)
}

// LinkRole tells the stack which role a link has in its bond now.
func (d attachments) LinkRole(place int, r nic.Role) { d.ip.SetMember(place, memberOf[r]) }

// LinkRenumbered tells driver and stack the new index of a link's interface, which was deleted and made again.
func (d attachments) LinkRenumbered(place int, l *nic.Link) {
	d.links[place].Index = l.IfIndex
	d.ip.Renew(place, interfaceOf(l))
}

// TargetAdded claims the flows of all sockets at an interface that was opened.
func (d attachments) TargetAdded(at steering.Target) error {
	if d.below.memoryHost != nil { // every frame of the wire comes
		return nil
	}
	d.claims.AddTarget(at)
	return d.claimAll(at)
}

// TargetRemoved releases the claims at an interface that is left.
func (d attachments) TargetRemoved(at steering.Target) {
	if d.below.memoryHost != nil {
		return
	}
	_ = d.releaseAt(at) // counted
	d.claims.RemoveTarget(at)
}

// ClaimsChanged makes the claims of all sockets again: which interface has which address, or what stands on an interface, has changed.
func (d attachments) ClaimsChanged() {
	d.table.each(func(e *entry) {
		if e.inStack {
			d.updateClaims(e)
		}
	})
	d.updateStreamClaims()
}

// Renumbered starts the job that makes memberships and device bindings again on an interface that was deleted and made again.
func (d attachments) Renumbered(ifName string, old, now int) *nic.Job {
	if d.below.memoryHost != nil { // its sockets are tied to nothing outside the stack
		return nil
	}
	return d.rejoin(ifName, old, now)
}

// PathsChanged notes interfaces whose sockets have another path now; the turn's end raises PATH for them.
func (d attachments) PathsChanged(ifIndexes []int) {
	d.paths.noteInterfaces(ifIndexes)
	d.reportLinks(ifIndexes)
	d.updateStreamClaims() // a ring that has a queue of an interface now can carry TCP there, one that has none any more cannot
	d.stats.PathChanges++
	d.scanMovesSoon()
	d.shadows.LookSoon()
}

// reportLinks passes to Config.LinkChanged what the interfaces with these indexes are to the ring now, where that is another than before.
func (d attachments) reportLinks(ifIndexes []int) {
	if d.config.LinkChanged == nil {
		return
	}
	for _, x := range d.nics.Statuses() {
		if !slices.Contains(ifIndexes, x.IfIndex) {
			continue
		}
		what := "carries frames"
		switch {
		case x.Why.Code != "":
			what = x.Why.Code + ": " + x.Why.Text
		case x.HandedOver:
			what = "carries frames, handed over by other rings"
		case x.Idle.Code != "":
			what = "carries frames; " + x.Idle.Code + ": " + x.Idle.Text
		case x.Inactive:
			what = "is inactive in its bond"
		}
		name := x.Interface.Name
		if x.Interface.VLAN != 0 {
			name = fmt.Sprintf("%s VLAN %d", name, x.Interface.VLAN)
		}
		if d.paths.isNews(name, what) {
			d.config.LinkChanged(LinkChange{name, x.Why.Code, what})
		}
	}
}
