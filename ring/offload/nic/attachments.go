package nic

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

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
	Fixed  []Fixed // links that the caller has made; with these alone there may be no Table
	// Background runs jobs; nil: on goroutines.
	Background Background
}

// Attachments are those of one ring, with the flat list of its links. They belong to the ring's goroutine. The zero value is a ring without
// any: nothing changes there.
type Attachments struct {
	table   *Table
	ring    int
	pool    *buffers.DriverPool
	clock   clock.Source
	wake    func()
	events  Events
	now     clock.Time
	list    []*attachment
	bonds   []*bond
	links   []Link      // the flat list
	fixed   []fixedLink // at its first places
	unused  []int       // places in it: those of attachments that have left
	aliases map[int]int // interfaces that were made again: number then, number now
	stats   Stats

	background Background
	checkSoon  atomic.Bool // a job has ended, or a link has failed
	generation uint64      // of the host's tables at the last Check
	version    uint64      // of the table, likewise
}

// Stats are counts of one ring's attachments.
type Stats struct {
	RetryFailures   uint64 // tries to have a lost interface or an idle queue that did not succeed
	AddressFailures uint64 // changes of addresses that the steering program could not be notified of
	IllegalMoves    uint64 // changes of state that were refused: a bug of this package
}

// New makes the attachments of a ring, which has none yet.
func New(c Config) *Attachments {
	a := &Attachments{table: c.Table, ring: c.Ring, pool: c.Pool, clock: c.Clock, wake: c.Wake, events: c.Events, background: c.Background}
	if a.background == nil {
		a.background = startGoroutine
	}
	if c.Table != nil {
		a.version = c.Table.version.Load()
	}
	for place, f := range c.Fixed {
		a.fixed = append(a.fixed, fixedLink{Fixed: f})
		a.links = append(a.links, Link{Link: f.Link, IfIndex: f.IfIndex, VLAN: f.Target.VLAN, Base: place})
	}
	return a
}

// Stats are the counts until now.
func (a *Attachments) Stats() Stats { return a.stats }

// Add attaches the ring to an interface, or to the members of a bond. On an error nothing is attached. It may wait: not for Poll.
func (a *Attachments) Add(i Interface) error {
	before, bonds := len(a.list), len(a.bonds)
	if err := a.add(i); err != nil {
		return err
	}
	for _, p := range a.list[before:] {
		if err := a.events.TargetAdded(p.claimTarget()); err != nil {
			a.bonds = a.bonds[:bonds]
			return errors.Join(err, a.remove(before))
		}
	}
	return nil
}

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
	p, err := a.newAttachment(i, nil, false)
	switch {
	case err != nil:
		return err
	case p.base != nil:
		a.alignChildren(p.base)
		if p.isAttached() && p.parentLost.Code != "" {
			return errors.Join(fmt.Errorf("offload: %s: %s: %w", p.On, p.parentLost.Text, unix.ENODEV), a.remove(len(a.list)-1))
		}
		return nil
	}
	if err := a.openNow(p); err != nil {
		return errors.Join(err, a.remove(len(a.list)-1))
	}
	return nil
}

// newAttachment makes an attachment that has no links yet; late: its device is opened by a job. Frames of another tag than those of an
// attachment that is there already come by that one's links.
func (a *Attachments) newAttachment(i Interface, b *bond, late bool) (*attachment, error) {
	p := &attachment{Interface: i, set: a, bond: b}
	if b != nil {
		p.role = Inactive // until it is known
	}
	for _, other := range a.list {
		switch {
		case other.Name == i.Name && other.VLAN == i.VLAN:
			return nil, fmt.Errorf("offload: %s: the ring has a part in it: %w", i.Name, unix.EEXIST)
		case other.Name == i.Name && other.isLeaving(): // a child would keep it for ever
			return nil, fmt.Errorf("offload: %s: the ring's part in it is still leaving: %w", i.Name, unix.EBUSY)
		case other.Name == i.Name && other.base == nil:
			p.base = other
		}
	}
	n, err := a.table.acquire(&i, late || p.base != nil)
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
	return errors.Join(a.remove(0), a.closeFixed())
}

// remove undoes newAttachment for those from a place of the list on. It waits.
func (a *Attachments) remove(from int) (err error) {
	list := slices.Clone(a.list[from:])
	slices.Reverse(list) // children first
	for _, p := range list {
		if !p.isLeaving() {
			a.leave(p)
		}
	}
	for _, p := range list {
		a.await(p)
		if p.hasRemains() {
			a.startClosing(p)
			a.await(p)
		}
		if dead := a.release(p); dead != nil {
			err = errors.Join(err, dead.Close())
		}
		a.drop(p)
	}
	return err
}

// release takes the ring off the attachment's interface. What it returns is to be closed.
func (a *Attachments) release(p *attachment) Device {
	if p.free {
		return nil
	}
	p.free = true
	return a.table.release(p.nic, a.ring, p.base == nil)
}

// drop takes an attachment that has nothing any more out of the list.
func (a *Attachments) drop(p *attachment) {
	p.move(Left)
	a.unused = append(a.unused, p.places...)
	a.list = slices.DeleteFunc(a.list, func(x *attachment) bool { return x == p })
}

// NeedsCheck reports whether Check has something to look at: it is due, a job has ended, or the host's tables are of another generation.
func (a *Attachments) NeedsCheck(now clock.Time, generation uint64) bool {
	return len(a.list) > 0 && (a.HasNews() || now >= a.Due() || a.generation != generation)
}

// HasNews reports whether a job has ended, or other rings have left queues or taken some, since the last Check.
func (a *Attachments) HasNews() bool {
	return len(a.list) > 0 && (a.checkSoon.Load() || a.version != a.table.version.Load())
}

// CheckSoon has the next Poll call Check.
func (a *Attachments) CheckSoon() { a.checkSoon.Store(true) }

// Due is when Check is to be called at the latest; clock.Never while all are well.
func (a *Attachments) Due() clock.Time {
	next := clock.Never
	for _, p := range a.list {
		// A job reports its end itself, and a child follows its base.
		if p.base == nil && (p.state == Closed || p.state == Attached && p.refused.Code != "") {
			next = min(next, p.next)
		}
	}
	for _, b := range a.bonds {
		next = min(next, b.next)
	}
	return next
}

// Check notices interfaces that went down, lost their program or were deleted, and those that came back; it finishes jobs and starts others. It
// waits for nothing.
func (a *Attachments) Check(now clock.Time) {
	a.now = now
	if a.checkFixed() {
		a.tellPaths()
	}
	if a.table == nil {
		return
	}
	s := a.table.config.Host.Snapshot()
	a.generation, a.version = s.Generation(), a.table.version.Load()
	a.checkSoon.Store(false) // before the jobs are looked at
	changed := a.checkBonds(s)
	for _, p := range slices.Clone(a.list) { // attachments that have left a bond go
		p.changed = a.check(p, s) || p.changed
		changed = changed || p.changed
	}
	if changed {
		a.tellPaths()
	}
	if a.checkIdleQueues() {
		a.tellPaths()
	}
}

// tellPaths tells the driver of all that has changed.
func (a *Attachments) tellPaths() {
	var list []int
	for i := range a.fixed {
		if f := &a.fixed[i]; f.changed {
			f.changed = false
			list = append(list, f.IfIndex)
		}
	}
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

// check moves one attachment on, and reports whether its path has changed.
func (a *Attachments) check(p *attachment, s *host.Snapshot) (changed bool) {
	was, serial := p.why().Code, p.serial
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
		if p.parentLost.Code == "" || p.base == nil {
			p.parentLost = a.checkOn(p, s)
		}
		for _, place := range p.places[:p.count] {
			a.events.LinkDown(place, p.why().Code != "", p.parentLost.Code != "")
		}
	} else if p.base == nil {
		a.checkClosed(p, s)
	}
	changed = p.isAttached() && a.checkStacked(p, s)
	return changed || p.why().Code != was || p.serial != serial
}

// LinkFailed: an interface that was down has refused frames by a link, which its ring holds now and would send when the interface is up again.
// The attachments whose frames go by that link give it up at the next Check; the driver sends nothing more by their places, which are returned.
func (a *Attachments) LinkFailed(place int) (sameWire []int) {
	for i := range a.links {
		if a.links[i].Base == a.links[place].Base {
			sameWire = append(sameWire, i)
		}
	}
	for _, p := range a.list {
		p.holdsBack = p.holdsBack || p.isAttached() && slices.ContainsFunc(p.places[:p.count], func(i int) bool { return slices.Contains(sameWire, i) })
	}
	return sameWire
}
