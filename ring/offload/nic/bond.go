package nic

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// bond is an interface whose frames come and go by several others: the ring is attached to each of these. Which they are, and which send,
// the host says from then on (host.Path): a change is followed at the Check that sees the mirror's new snapshot.
//
//	active-backup        the active member sends, and only what comes by it is received
//	balance-xor, 802.3ad each flow is sent by one of the active members, by its hash; all receive
//
// What is not claimed passes to the kernel as everywhere: LACP, ARP and the bond's own probes among it, so the kernel goes on
// deciding which member is active.
type bond struct {
	Interface
	lost    link.Reason // why it carries nothing; empty while it does
	changed bool        // its path has changed, and the sockets that use it are to be told
	ifIndex int
	retryAt clock.Time // when a member is to be attached that could not be yet; clock.Never for none
}

// member is the Interface by which the ring attaches to a member of the bond.
func (b *bond) member(ifName string) Interface {
	i := b.Interface
	i.Name, i.Bond = ifName, false
	return i
}

// addBond attaches the ring to the members of a bond. One of them must open now, else it is an error; the others are tried again by Check. With
// Interface.Later jobs open all of them.
func (a *Attachments) addBond(i Interface) error {
	s := a.table.config.Host.Snapshot()
	l, ok := s.LinkByName(i.On)
	if !ok {
		return fmt.Errorf("offload: On %q: %w", i.On, unix.ENODEV)
	}
	path := s.Path(l.Index)
	if !path.Offload {
		return &link.Refusal{Reason: link.Reason{Code: path.Code, Text: path.Text}}
	}
	b := &bond{Interface: i, ifIndex: l.Index, retryAt: clock.Never}
	before := len(a.list)
	var errs error
	had := false
	for _, index := range path.Attach {
		m, _ := s.Link(index)
		p, err := a.newAttachment(b.member(m.Name), b)
		if err != nil {
			return errors.Join(err, a.removeFrom(before))
		}
		p.ifIndex = b.ifIndex
		if p.base != nil {
			a.alignChildren(p.base)
			had = true
		} else if i.Later {
			p.lost = p.reasonOpening()
			had = true
		} else if err := a.openMember(p); err != nil {
			errs = errors.Join(errs, err)
			p.lost = reasonOf(err)
			a.scheduleRetry(p)
		} else {
			had = true
		}
	}
	if !had {
		return errors.Join(errs, a.removeFrom(before))
	}
	a.bonds = append(a.bonds, b)
	a.setRoles(b, &path, s)
	return nil
}

// openMember opens a member's device and links at once. It waits.
func (a *Attachments) openMember(p *attachment) error {
	n := p.nic
	a.table.mu.Lock()
	for n.opening != nil {
		n.awaitOpening()
	}
	var err error
	if n.device == nil {
		err = n.open(Patient)
	}
	a.table.mu.Unlock()
	if err != nil {
		return err
	}
	return a.openNow(p)
}

// checkBonds compares each bond with the host's tables: whether it is there, which members it has, which of them send. It reports whether the
// path of sockets on a bond has changed.
func (a *Attachments) checkBonds(s *host.Snapshot) (changed bool) {
	for _, b := range a.bonds {
		was := b.lost
		l, here := s.LinkByName(b.On)
		var path host.Path
		if b.lost = (link.Reason{}); !here {
			b.lost = link.Reason{Code: "link.gone", Text: "interface " + b.On + " was deleted"}
		} else if path = s.Path(l.Index); !path.Offload {
			b.lost = link.Reason{Code: path.Code, Text: path.Text}
		}
		if old := b.ifIndex; here && old != l.Index {
			b.ifIndex = l.Index
			if !slices.ContainsFunc(a.list, func(p *attachment) bool { return p.bond == b && p.isAttached() }) { // else checkParent does it
				a.renumberInterface(b.On, old, b.ifIndex)
			}
		}
		b.retryAt = clock.Never
		b.changed = a.setRoles(b, &path, s) || b.changed // before a member is removed: frames that wait for it can be sent by another
		a.followMembers(b, &path, s)
		b.changed = a.setRoles(b, &path, s) || b.lost.Code != was.Code || b.changed
		changed = changed || b.changed
	}
	return changed
}

// followMembers adds attachments for new members of a bond, and removes those of interfaces that are members no more.
func (a *Attachments) followMembers(b *bond, path *host.Path, s *host.Snapshot) {
	var names []string
	for _, index := range path.Attach {
		if m, ok := s.Link(index); ok {
			names = append(names, m.Name)
		}
	}
	for _, p := range slices.Clone(a.list) {
		if p.bond == b && !p.isLeaving() && !slices.Contains(names, p.Name) {
			a.startLeaving(p)
			b.changed = true
		}
	}
	for _, name := range names {
		if slices.ContainsFunc(a.list, func(p *attachment) bool { return p.bond == b && p.Name == name && !p.isLeaving() }) {
			continue
		}
		p, err := a.newAttachment(b.member(name), b)
		if err != nil { // the ring's attachment to it is still leaving, which takes milliseconds, or is not the bond's
			b.retryAt = a.now + retryFirst
			continue
		}
		p.ifIndex, p.retryAt = b.ifIndex, a.now
		p.lost = link.Reason{Code: "link.joining", Text: "member " + name + " of " + b.On + " is being opened"}
		// A member without the claims would leave to the kernel what comes by it, and other members would not: it is given up for a second, in
		// which claims may be released.
		if err := a.events.TargetAdded(p.claimTarget()); err != nil {
			p.lost = reasonOf(err)
			a.startLeaving(p)
			b.retryAt = a.now + retryLast
		}
		b.changed = true
	}
}

// setRoles decides for each member of a bond whether it sends, tells the driver, and reports whether that has changed.
func (a *Attachments) setRoles(b *bond, path *host.Path, s *host.Snapshot) (changed bool) {
	for _, p := range a.list {
		if p.bond != b || p.isLeaving() {
			continue
		}
		r := Inactive
		if l, ok := s.LinkByName(p.Name); ok && slices.Contains(path.Send, l.Index) {
			r = Active
		} else if master, ok := s.Link(l.Master); ok && master.BondMode == host.BondActiveBackup {
			r = Backup
		}
		changed = changed || p.role != r
		p.role = r
	}
	for _, first := range []bool{true, false} { // first the members that send, so that frames that wait for another can be sent by them
		for _, p := range a.list {
			if p.bond == b && !p.isLeaving() && first == (p.role == Active) {
				a.notifyRoles(p)
			}
		}
	}
	return changed
}
