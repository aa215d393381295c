package nic

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
)

// Config is what the attachments of a ring are made from.
type Config struct {
	Table  *Table
	Ring   int // its number, not 0
	Pool   *buffers.DriverPool
	Clock  clock.Source
	Wake   func() // wakes the ring if it sleeps; any goroutine
	Events Events
	// Background runs jobs; nil: on goroutines.
	Background Background
}

// New makes the attachments of a ring, which has none yet.
func New(c Config) *Attachments {
	a := &Attachments{table: c.Table, ring: c.Ring, pool: c.Pool, clock: c.Clock, wake: c.Wake, events: c.Events, background: c.Background}
	if a.background == nil {
		a.background = startGoroutine
	}
	if c.Table != nil {
		a.version = c.Table.version.Load()
		a.generation = c.Table.config.Host.Generation() // what is attached is as it is then, or later
	}
	return a
}

// Stats are the counts until now.
func (a *Attachments) Stats() Stats { return a.stats }

// Add attaches the ring to an interface, or to the members of a bond. On an error nothing is attached. It may wait: not for Poll, except with
// Interface.Later.
func (a *Attachments) Add(i Interface) error {
	before, bonds := len(a.list), len(a.bonds)
	if err := a.add(i); err != nil {
		return err
	}
	for _, p := range a.list[before:] {
		if err := a.events.TargetAdded(p.claimTarget()); err != nil {
			a.bonds = a.bonds[:bonds]
			return errors.Join(err, a.removeFrom(before))
		}
	}
	if i.Later { // the claims come first: on their error no job is under way that removeFrom would wait for
		a.openLater(a.list[before:])
	}
	return nil
}

// openLater starts the jobs that open the interfaces of new attachments, where they are up.
func (a *Attachments) openLater(list []*attachment) {
	a.now = max(a.now, a.clock()) // it is 0 until the first Check
	s := a.table.config.Host.Snapshot()
	for _, p := range list {
		if p.base == nil {
			a.checkClosed(p, s)
		}
	}
}

// AwaitOpening waits until the jobs that open the interface On have ended, and applies their results. Not for Poll.
func (a *Attachments) AwaitOpening(on string) {
	for _, p := range a.list {
		if p.On == on && p.state == Opening {
			a.await(p)
			p.changed = true
			a.CheckSoon() // the paths of its sockets
		}
	}
}

// add is Add without the claims. A child, whose device another attachment has, gets that one's links; for others the device is opened here.
func (a *Attachments) add(i Interface) error {
	if i.On == "" {
		i.On = i.Name
	}
	switch {
	case i.Name == "":
		return fmt.Errorf("offload: Interface.Name is empty: %w", unix.EINVAL)
	case i.Fill < 0:
		return fmt.Errorf("offload: %s: Fill %d: %w", i.Name, i.Fill, unix.EINVAL)
	case i.Bond:
		return a.addBond(i)
	}
	p, err := a.newAttachment(i, nil)
	switch {
	case err != nil:
		return err
	case p.base != nil:
		a.alignChildren(p.base)
		// As of an attachment with links of its own, which cannot be opened without its On (describe).
		if p.isAttached() && p.parentLost.Code != "" {
			return errors.Join(fmt.Errorf("offload: %s: %s: %w", p.On, p.parentLost.Text, unix.ENODEV), a.removeFrom(len(a.list)-1))
		}
		return nil
	case i.Later:
		return a.noteOpening(p)
	}
	if err := a.openNow(p); err != nil {
		return errors.Join(err, a.removeFrom(len(a.list)-1))
	}
	return nil
}

// noteOpening describes an attachment whose interface a job is to open (Interface.Later).
func (a *Attachments) noteOpening(p *attachment) error {
	l, ok := a.table.config.Host.Snapshot().LinkByName(p.On)
	if !ok {
		return errors.Join(fmt.Errorf("offload: %s: %w", p.On, unix.ENODEV), a.removeFrom(len(a.list)-1))
	}
	p.ifIndex, p.lost = l.Index, p.reasonOpening()
	return nil
}

// newAttachment makes an attachment without links and enters it in the table of interfaces. b is the bond whose member the interface is, or nil;
// a job opens the device of a member. If the ring has an attachment to the same device with another tag, the new one is its child and uses its
// links.
func (a *Attachments) newAttachment(i Interface, b *bond) (*attachment, error) {
	p := &attachment{Interface: i, set: a, bond: b}
	if b != nil {
		p.role = Inactive // until it is known
	}
	for _, other := range a.list {
		switch {
		case other.Name == i.Name && other.VLAN == i.VLAN:
			return nil, fmt.Errorf("offload: %s: the ring is attached to it already: %w", i.Name, unix.EEXIST)
		case other.Name == i.Name && other.isLeaving(): // a child would keep it for ever
			return nil, fmt.Errorf("offload: %s: the ring's attachment to it is still leaving: %w", i.Name, unix.EBUSY)
		case other.Name == i.Name && other.base == nil:
			p.base = other
		}
	}
	late := b != nil || p.base != nil || i.Later // a job opens a member's device, and a child's base has opened its own
	n, err := a.table.acquire(&i, late)
	if err != nil {
		return nil, err
	}
	p.nic = n
	a.list = append(a.list, p)
	return p, nil
}

// Close removes all attachments. It waits for their jobs and closes devices: not for Poll.
func (a *Attachments) Close() error {
	a.bonds = nil
	return a.removeFrom(0)
}

// removeFrom removes the attachments from index from of the list on, and closes what they had. It waits for jobs: not for Poll.
func (a *Attachments) removeFrom(from int) (err error) {
	list := slices.Clone(a.list[from:])
	slices.Reverse(list) // children first
	for _, p := range list {
		if !p.isLeaving() {
			a.startLeaving(p)
		}
	}
	for _, p := range list {
		a.await(p)
		if p.hasLeftovers() {
			a.startClosing(p)
			a.await(p)
		}
		if dead := a.release(p); dead != nil {
			err = errors.Join(err, dead.Close())
		}
		a.removeLeft(p)
	}
	return err
}

// release takes the attachment out of the table of interfaces, once. It returns what the interface had, for the caller to close, if no other
// attachment uses it.
func (a *Attachments) release(p *attachment) io.Closer {
	if p.released {
		return nil
	}
	p.released = true
	return a.table.release(p.nic, a.ring, p.base == nil)
}

// removeLeft takes an attachment that has released all it had out of the list; its places are free for others.
func (a *Attachments) removeLeft(p *attachment) {
	p.move(Left)
	a.unused = append(a.unused, p.places...)
	a.list = slices.DeleteFunc(a.list, func(x *attachment) bool { return x == p })
}

// NeedsCheck reports whether Check has something to look at: it is due, a job has ended, or the host's tables are of another generation.
func (a *Attachments) NeedsCheck(now clock.Time, generation uint64) bool {
	return len(a.list) > 0 && (a.HasEvents() || now >= a.Due() || a.HasUncheckedTables(generation))
}

// HasUncheckedTables reports whether the host's tables, of a generation, are other ones than those of the last Check. A ring asks before it
// sleeps: most turns do not check, and the stack may have taken over the new tables in one of them.
func (a *Attachments) HasUncheckedTables(generation uint64) bool {
	return len(a.list) > 0 && a.generation != generation
}

// HasEvents reports whether a job has ended, or other rings have left queues or taken some, since the last Check.
func (a *Attachments) HasEvents() bool {
	return len(a.list) > 0 && (a.checkSoon.Load() || a.version != a.table.version.Load())
}

// CheckSoon has the next Poll call Check.
func (a *Attachments) CheckSoon() { a.checkSoon.Store(true) }

// Due is when Check is to be called at the latest; clock.Never while all are well.
func (a *Attachments) Due() clock.Time {
	next := clock.Never
	for _, p := range a.list {
		// A job reports its end itself, and a child follows its base.
		if p.base == nil && (p.state == Closed || p.state == Attached && p.queueRefused.Code != "") {
			next = min(next, p.retryAt)
		}
	}
	for _, b := range a.bonds {
		next = min(next, b.retryAt)
	}
	return next
}

// Check notices interfaces that went down, lost their program or were deleted, and those that came back; it finishes jobs and starts others. It
// waits for nothing. In the end it notifies the driver of all paths that have changed.
func (a *Attachments) Check(now clock.Time) {
	a.now = now
	if a.table != nil && a.checkInterfaces() { // the zero value has nothing to look at
		a.notifyPaths()
	}
}

// checkInterfaces is Check for bonds and attachments, and then for idle queues, which an attachment that has just left may have left behind. It
// reports whether a path has changed.
func (a *Attachments) checkInterfaces() (changed bool) {
	s := a.table.config.Host.Snapshot()
	a.generation, a.version = s.Generation(), a.table.version.Load()
	a.checkSoon.Store(false) // before the jobs are looked at: one that ends later sets it again
	changed = a.checkBonds(s)
	for _, p := range slices.Clone(a.list) { // a copy: continueLeaving removes attachments from the list
		p.changed = a.check(p, s) || p.changed
		changed = changed || p.changed
	}
	return a.checkIdleQueues() || changed
}

// notifyPaths tells the driver the interfaces whose sockets have another path now.
func (a *Attachments) notifyPaths() {
	var list []int
	for _, p := range a.list {
		if p.changed {
			p.changed = false
			list = append(list, p.ifIndex)
		}
	}
	for _, b := range a.bonds {
		if b.changed {
			b.changed = false
			list = append(list, b.ifIndex)
		}
	}
	a.events.PathsChanged(list)
}

// check is Check for one attachment: it applies the result of a job that has ended, notices a loss or a return of the interface, and starts
// the job that is due. It reports whether the path of its sockets has changed.
func (a *Attachments) check(p *attachment, s *host.Snapshot) (changed bool) {
	was, serial := p.lossReason().Code, p.serial
	if p.rejoin != nil && p.rejoin.finished {
		p.rejoin = nil
	}
	if a.finishJob(p); p.isLeaving() {
		a.continueLeaving(p)
		return false
	}
	if p.base != nil {
		a.checkChild(p)
	} else if p.isAttached() {
		a.checkDevice(p, s)
	}
	if p.isAttached() {
		if p.parentLost.Code == "" || p.base == nil { // of a child checkChild may have found that its interface was deleted
			p.parentLost = a.checkParent(p, s)
		}
		for _, place := range p.places[:p.count] {
			a.events.LinkDown(place, Down{Link: p.lossReason().Code != "", VLAN: p.parentLost.Code != ""})
		}
	} else if p.base == nil {
		a.checkClosed(p, s)
	}
	changed = p.isAttached() && a.checkStacked(p, s)
	return p.guardChanged() || changed || p.lossReason().Code != was || p.serial != serial
}

// LinkFailed is called when an interface that is down has refused frames: the link's ring holds them and would send them, late, when the
// interface is up again. The attachments that send by that link close it at the next Check. Their places are returned: the driver must send
// nothing more there.
func (a *Attachments) LinkFailed(place int) (sameWire []int) {
	for i := range a.links {
		if a.links[i].Base == a.links[place].Base {
			sameWire = append(sameWire, i)
		}
	}
	for _, p := range a.list {
		if p.isAttached() && slices.ContainsFunc(p.places[:p.count], func(i int) bool { return slices.Contains(sameWire, i) }) {
			p.refusedFrames = true
		}
	}
	return sameWire
}
