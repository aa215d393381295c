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
	why     link.Reason // why it carries nothing; empty while it does
	changed bool        // its path has changed, and the sockets that use it are to be told
	ifIndex int
	next    clock.Time // when a member is to be attached that could not be yet; clock.Never for none
}

// member is what the ring wants of a member.
func (b *bond) member(ifName string) Interface {
	i := b.Interface
	i.Name, i.Bond = ifName, false
	return i
}

// addBond attaches the ring to the members. One at least must be had; the others are tried again.
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
	b := &bond{Interface: i, ifIndex: l.Index, next: clock.Never}
	before := len(a.list)
	var errs error
	had := false
	for _, index := range path.Attach {
		m, _ := s.Link(index)
		p, err := a.newAttachment(b.member(m.Name), b, true)
		if err != nil {
			return errors.Join(err, a.remove(before))
		}
		p.ifIndex = b.ifIndex
		if p.base != nil {
			a.alignChildren(p.base)
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
		return errors.Join(errs, a.remove(before))
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

// checkBonds follows the host, and reports whether a path has changed.
func (a *Attachments) checkBonds(s *host.Snapshot) (changed bool) {
	for _, b := range a.bonds {
		was := b.why
		l, here := s.LinkByName(b.On)
		var path host.Path
		if b.why = (link.Reason{}); !here {
			b.why = link.Reason{Code: "link.gone", Text: "interface " + b.On + " was deleted"}
		} else if path = s.Path(l.Index); !path.Offload {
			b.why = link.Reason{Code: path.Code, Text: path.Text}
		}
		if old := b.ifIndex; here && old != l.Index {
			b.ifIndex = l.Index
			if !slices.ContainsFunc(a.list, func(p *attachment) bool { return p.bond == b && p.isAttached() }) { // else checkOn sees to it
				a.renumbered(b.On, old, b.ifIndex)
			}
		}
		b.next = clock.Never
		b.changed = a.setRoles(b, &path, s) || b.changed // before one leaves: what waits for it can leave by another
		a.followMembers(b, &path, s)
		b.changed = a.setRoles(b, &path, s) || b.why.Code != was.Code || b.changed
		changed = changed || b.changed
	}
	return changed
}

// followMembers has attachments come and go as members do.
func (a *Attachments) followMembers(b *bond, path *host.Path, s *host.Snapshot) {
	var names []string
	for _, index := range path.Attach {
		if m, ok := s.Link(index); ok {
			names = append(names, m.Name)
		}
	}
	for _, p := range slices.Clone(a.list) {
		if p.bond == b && !p.isLeaving() && !slices.Contains(names, p.Name) {
			a.leave(p)
			b.changed = true
		}
	}
	for _, name := range names {
		if slices.ContainsFunc(a.list, func(p *attachment) bool { return p.bond == b && p.Name == name && !p.isLeaving() }) {
			continue
		}
		p, err := a.newAttachment(b.member(name), b, true)
		if err != nil { // it is still leaving, or another ring's
			b.next = a.now + retryFirst
			continue
		}
		p.ifIndex, p.next = b.ifIndex, a.now
		p.lost = link.Reason{Code: "link.joining", Text: "member " + name + " of " + b.On + " is being opened"}
		if err := a.events.TargetAdded(p.claimTarget()); err != nil { // the kernel keeps its flows: the bond has more than one way for a packet
			p.lost = reasonOf(err)
			a.leave(p)
			b.next = a.now + retryLast
		}
		b.changed = true
	}
}

// setRoles says which members send, and reports whether that has changed.
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
	for _, first := range []bool{true, false} { // those that send, so that what waits for another can leave by them
		for _, p := range a.list {
			if p.bond == b && !p.isLeaving() && first == (p.role == Active) {
				a.tellRoles(p)
			}
		}
	}
	return changed
}
