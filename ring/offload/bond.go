package offload

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/stack"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// bond is an interface whose frames come and go by several others: the driver has a part in each of these. Which they are, and which send,
// the host says from then on (host.Path): a change is followed at the turn that sees the mirror's new snapshot.
//
//	active-backup        the active member sends, and it alone is listened to
//	balance-xor, 802.3ad each flow is sent by one of the active members, by its hash; all receive
//
// What is not claimed passes to the kernel as everywhere: LACP, ARP and the bond's own probes among it, so the kernel goes on
// deciding who is active.
type bond struct {
	Interface
	why   ring.Reason // why it has no way; zero while it has
	moved bool        // its way has changed, and the sockets that use it are to be told
	host  int         // number of the interface
	next  clock.Time  // when a member is to be taken that could not be yet; clock.Never for none
}

// takeBond gives the driver its parts in the members. One at least must be had; the others are tried again.
func (d *driver) takeBond(i Interface) error {
	s := d.config.Exchange.config.Host.Snapshot()
	l, ok := s.LinkByName(i.On)
	if !ok {
		return fmt.Errorf("offload: On %q: %w", i.On, unix.ENODEV)
	}
	path := s.Path(l.Index)
	if !path.Offload {
		return &link.Refusal{Reason: link.Reason{Code: path.Code, Text: path.Text}}
	}
	b := &bond{Interface: i, host: l.Index, next: clock.Never}
	before := len(d.parts)
	var errs error
	had := false
	for _, index := range path.Attach {
		m, _ := s.Link(index)
		p, err := d.newPart(b.part(m.Name), b, true)
		if err != nil {
			return errors.Join(err, d.dropParts(before))
		}
		p.host = b.host
		if p.base != nil {
			d.align(p.base)
			had = true
		} else if err := d.openMember(p); err != nil {
			errs = errors.Join(errs, err)
			p.lost = reasonOf(err)
			d.collect(p)
			d.putOff(p)
		} else {
			had = true
		}
	}
	if !had {
		return errors.Join(errs, d.dropParts(before))
	}
	d.bonds = append(d.bonds, b)
	d.elect(b, &path, s)
	return nil
}

// part is the driver's part in a member.
func (b *bond) part(name string) Interface {
	i := b.Interface
	i.Name, i.Bond = name, false
	return i
}

// openMember opens a member's device and links.
func (d *driver) openMember(p *part) error {
	x := d.config.Exchange
	x.mu.Lock()
	for p.carrier.opening != nil {
		p.carrier.sitOut()
	}
	var err error
	if p.carrier.device == nil {
		err = p.carrier.openDevice(Patient)
	}
	x.mu.Unlock()
	if err != nil {
		return err
	}
	return d.openPart(p)
}

// checkBonds follows the host, and tells whether a way has changed.
func (d *driver) checkBonds(s *host.Snapshot) (changed bool) {
	for _, b := range d.bonds {
		was := b.why
		l, here := s.LinkByName(b.On)
		var path host.Path
		if b.why = (ring.Reason{}); !here {
			b.why = ring.Reason{Code: "link.gone", Text: "interface " + b.On + " was deleted"}
		} else if path = s.Path(l.Index); !path.Offload {
			b.why = ring.Reason{Code: path.Code, Text: path.Text}
		}
		if old := b.host; here && old != l.Index {
			b.host = l.Index
			if !slices.ContainsFunc(d.parts, func(p *part) bool { return p.bond == b && p.open }) { // else checkOn sees to it
				d.moveTies(b.On, old, b.host)
			}
		}
		b.next = clock.Never
		b.moved = d.elect(b, &path, s) || b.moved // before one leaves: what waits for it can leave by another
		d.takeMembers(b, &path, s)
		b.moved = d.elect(b, &path, s) || b.why.Code != was.Code || b.moved
		changed = changed || b.moved
	}
	return changed
}

// takeMembers has parts come and go as members do.
func (d *driver) takeMembers(b *bond, path *host.Path, s *host.Snapshot) {
	var names []string
	for _, index := range path.Attach {
		if m, ok := s.Link(index); ok {
			names = append(names, m.Name)
		}
	}
	for _, p := range slices.Clone(d.parts) {
		if p.bond == b && !p.quits && !slices.Contains(names, p.Name) {
			d.quit(p)
			b.moved = true
		}
	}
	for _, name := range names {
		if slices.ContainsFunc(d.parts, func(p *part) bool { return p.bond == b && p.Name == name && !p.quits }) {
			continue
		}
		p, err := d.newPart(b.part(name), b, true)
		if err != nil { // it is still leaving, or another's
			b.next = d.now + retryFirst
			continue
		}
		p.host, p.next = b.host, d.now
		p.lost = ring.Reason{Code: "link.joining", Text: "member " + name + " of " + b.On + " is being opened"}
		if err := d.claimAll(p.steer()); err != nil { // its flows stay the kernel's: the bond has more than one way for a packet
			p.lost = reasonOf(err)
			d.quit(p)
			b.next = d.now + retryLast
		}
		b.moved = true
	}
}

// elect says which members send, and tells whether that has changed.
func (d *driver) elect(b *bond, path *host.Path, s *host.Snapshot) (changed bool) {
	for _, p := range d.parts {
		if p.bond != b || p.quits {
			continue
		}
		m := stack.MemberInactive
		if l, ok := s.LinkByName(p.Name); ok && slices.Contains(path.Send, l.Index) {
			m = stack.MemberActive
		} else if master, ok := s.Link(l.Master); ok && master.BondMode == host.BondActiveBackup {
			m = stack.MemberBackup
		}
		if p.member != m {
			changed = true
		}
		p.member = m
	}
	for _, first := range []bool{true, false} { // those that send, so that what waits for another can leave by them
		for _, p := range d.parts {
			if p.bond == b && !p.quits && first == (p.member == stack.MemberActive) {
				d.placeMember(p)
			}
		}
	}
	return changed
}

// placeMember tells the stack: of an active member's queues the first one sends.
func (d *driver) placeMember(p *part) {
	m := p.member
	for _, i := range p.links[:p.count] {
		d.stack.SetMember(i, m)
		if m == stack.MemberActive {
			m = stack.MemberQueue
		}
	}
}

// quit begins a part's leaving of its bond.
func (d *driver) quit(p *part) {
	p.quits = true
	d.forsake(p)
	d.shutPart(p)
	d.collect(p)
}

// quitFurther goes on with that: links and device are closed by errands.
func (d *driver) quitFurther(p *part) {
	if p.errand != nil || slices.ContainsFunc(d.parts, func(side *part) bool { return side.base == p }) {
		return
	}
	if p.count > 0 {
		panic("offload: a part that has left its bond has links")
	}
	if p.left {
		d.forget(p)
		return
	}
	p.dead = d.leavePart(p)
	if d.collect(p); p.errand == nil {
		d.forget(p)
	}
}
