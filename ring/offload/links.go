package offload

import (
	"fmt"

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

// AddInterface attaches a ring on an exchange to one more interface. The flows of its sockets that are on that interface
// are claimed there too, groups that they joined on it while the kernel had them included. On an error the ring is as
// it was. For the driver's owner, or anyone before the first Poll.
func AddInterface(drv ring.Driver, i nic.Interface) error {
	d, ok := drv.(*driver)
	switch {
	case !ok:
		return fmt.Errorf("offload: add interface: a driver of kind %q: %w", drv.Kind(), unix.EINVAL)
	case d.closed:
		return fmt.Errorf("offload: add interface: %w", ring.ErrClosed)
	case d.config.Exchange == nil:
		return fmt.Errorf("offload: add interface %q: the ring is on no exchange: %w", i.Name, unix.EINVAL)
	}
	if err := d.nics.Add(i); err != nil {
		return err
	}
	d.shadows.LookSoon()
	d.shadows.Claimed() // what the kernel had of the flows is older
	d.turn |= clockMask
	return nil
}

// interfaceOf is a link as the stack is to know it.
func interfaceOf(l *nic.Link) ip.Interface {
	return ip.Interface{Index: l.IfIndex, MAC: wire.MAC(l.MAC), VLAN: l.VLAN, MTU: l.MTU, Checksum: l.Checksum, Member: memberOf[l.Role],
		Wire: l.Base + 1}
}

// memberOf is a link's role as the stack calls it.
var memberOf = [...]ip.Member{nic.NoBond: ip.NoMember, nic.Active: ip.MemberActive, nic.ActiveQueue: ip.MemberQueue,
	nic.Inactive: ip.MemberInactive, nic.Backup: ip.MemberBackup}

// LinkAdded puts a link into the list.
func (d attachments) LinkAdded(place int, l *nic.Link) error {
	in := interfaceOf(l)
	if place == len(d.links) {
		if err := d.ip.AddInterface(in); err != nil {
			return fmt.Errorf("offload: %s: %w", l.Link.Info().Name, err)
		}
		d.links = append(d.links, Link{})
		d.down, d.stuck = append(d.down, false), append(d.stuck, false)
		d.past = append(d.past, past{})
	} else if err := in.Validate(); err != nil {
		return fmt.Errorf("offload: %s: %w", l.Link.Info().Name, err)
	}
	if l.Fresh {
		d.past[place] = past{}
	}
	x := &d.links[place]
	x.Link, x.Index, x.VLAN, x.Checksum = l.Link, l.IfIndex, l.VLAN, l.Checksum
	d.down[place], d.stuck[place] = false, false
	d.ip.Renew(place, in)
	if fd := l.Link.FD(); fd >= 0 && d.linksArmed { // those of another have none; else see listen
		if e := d.list.Control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN, linkKey+uint32(place), 0); e != 0 {
			x.Link = absentFor(l.Link)
			d.ip.SetDown(place, true)
			return fmt.Errorf("offload: epoll_ctl: %w", e)
		}
	}
	d.shadows.Claimed() // what the kernel had of the flows is older
	return nil
}

// LinkRemoved leaves a stand-in at the place.
func (d attachments) LinkRemoved(place int, l link.Link) {
	d.ip.SetDown(place, true)
	if fd := l.FD(); fd >= 0 {
		_ = d.list.Control(unix.EPOLL_CTL_DEL, fd, 0, 0, 0) // refused for one that is gone already
	}
	d.links[place].Link = absentFor(l)
}

// LinkStopped keeps what the link has counted.
func (d attachments) LinkStopped(place int, l link.Link) { d.past[place].add(l) }

// LinkClosed takes back the packets with a token that the link has not sent: Reap reports them.
func (d attachments) LinkClosed(l link.Link) {
	for {
		n := l.Complete(d.dones[:])
		for j := range d.dones[:n] {
			f := d.removeFlight(d.dones[j].Token)
			f.t.IsComplete = true
			d.results = append(d.results, result{f, unix.ENETDOWN})
		}
		if n == 0 {
			return
		}
	}
}

func (d attachments) LinkDown(place int, down, vlanDown bool) {
	d.ip.SetDown(place, down)
	d.ip.SetVLANDown(place, vlanDown)
}

func (d attachments) LinkRole(place int, r nic.Role) { d.ip.SetMember(place, memberOf[r]) }

func (d attachments) LinkRenumbered(place int, l *nic.Link) {
	d.links[place].Index = l.IfIndex
	d.ip.Renew(place, interfaceOf(l))
}

func (d attachments) TargetAdded(at steering.Target) error {
	d.claims.AddTarget(at)
	return d.claimAll(at)
}

func (d attachments) TargetRemoved(at steering.Target) {
	_ = d.releaseAt(at) // counted
	d.claims.RemoveTarget(at)
}

func (d attachments) ClaimsChanged() {
	d.table.each(func(e *entry) {
		if e.own {
			d.reclaim(e)
		}
	})
}

func (d attachments) Renumbered(ifName string, old, now int) *nic.Job {
	return d.rejoin(ifName, old, now)
}

func (d attachments) PathsChanged(ifIndexes []int) {
	d.changed = append(d.changed, ifIndexes...)
	d.stats.PathChanges++
	d.moved = true
	d.shadows.LookSoon()
}
