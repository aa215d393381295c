package nic

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// opened is what was opened for an attachment.
type opened struct {
	dev    Device
	serial uint64
	queues []int // those that were to be opened
	fill   int   // of each
	ready  []link.Staged
	err    error
}

// choose finds the device, and the queues of it that the attachment gets.
func (o *opened) choose(p *attachment) {
	n, a := p.nic, p.set
	n.table.mu.Lock()
	defer n.table.mu.Unlock()
	if n.device == nil {
		o.err = fmt.Errorf("offload: %s: %w", n.name, link.ErrDetached)
		return
	}
	o.dev, o.serial = n.device, n.serial
	if o.queues, o.err = n.assign(a.ring, p.Queues); o.err == nil {
		o.fill = p.fillFor(len(o.queues), a.pool)
	}
}

// prepare opens the queues, until one cannot be had.
func (o *opened) prepare(a *Attachments) {
	for _, q := range o.queues {
		if o.err != nil {
			return
		}
		var l link.Staged
		if l, o.err = o.dev.PrepareQueue(q, a.pool, o.fill); o.err == nil {
			o.ready = append(o.ready, l)
		}
	}
}

// openNow opens the links of a new attachment at once. It waits.
func (a *Attachments) openNow(p *attachment) error {
	o := &opened{}
	p.move(Opening)
	if o.choose(p); o.err == nil {
		o.prepare(a)
	}
	return a.attach(p, o)
}

// startOpening tries to have a lost interface back, and the attachment's queues there.
func (a *Attachments) startOpening(p *attachment) {
	if !p.move(Opening) {
		return
	}
	o, n, now := &opened{}, p.nic, a.now
	p.job = a.Start(func() {
		o.err = a.table.config.Netns.Do(func() error {
			if dead := n.dropOutdated(now); dead != nil {
				_ = dead.Close() // its interface is gone
			}
			if err := n.reopen(now); err != nil {
				return err
			}
			if o.choose(p); o.err == nil {
				o.prepare(a)
			}
			return o.err
		})
	}, func() { a.finishOpening(p, o) })
}

// finishOpening takes over what startOpening has opened.
func (a *Attachments) finishOpening(p *attachment, o *opened) {
	if p.state != Opening { // it leaves: all of it is closed
		p.surplus = append(p.surplus, o.ready...)
		return
	}
	old := p.ifIndex
	if err := a.attach(p, o); err != nil {
		p.lost, p.program = reasonOf(err), p.nic.currentProgram()
		a.stats.RetryFailures++
		a.scheduleRetry(p)
		return
	}
	a.renumber(p, old)
}

// scheduleRetry says when the attachment is tried again: later each time.
func (a *Attachments) scheduleRetry(p *attachment) {
	p.backoff = min(2*max(p.backoff, retryFirst), retryLast)
	p.next = max(a.now, a.clock()) + p.backoff
}

// attach ends Opening: what was opened becomes the attachment's links. On an error it has none, and what was opened is closed by a job.
func (a *Attachments) attach(p *attachment, o *opened) error {
	err := o.err
	if err == nil {
		err = a.startLinks(p, o)
	}
	if err == nil {
		p.lost, p.serial, p.backoff, p.refused = link.Reason{}, o.serial, 0, link.Reason{}
		p.reportedCount = p.count
		p.move(Attached)
		if p.bond != nil {
			a.tellRoles(p)
		}
		a.alignChildren(p)
		return nil
	}
	p.surplus = append(p.surplus, o.ready...)
	a.closeRemains(p, Closing, Closed)
	return err
}

// startLinks makes links of the queues that were opened; what it has not started stays in o.
func (a *Attachments) startLinks(p *attachment, o *opened) error {
	n := p.nic
	a.table.mu.Lock()
	there := n.device == o.dev && n.serial == o.serial
	p.idle = n.idleQueues()
	if there && len(o.queues) > 0 {
		a.announceQueues()
	}
	a.table.mu.Unlock()
	if !there {
		return fmt.Errorf("offload: %s: %w", p.Name, link.ErrDetached)
	}
	p.info = o.dev.Info()
	l, err := a.describe(p)
	if err != nil {
		return err
	}
	p.ifIndex = l.IfIndex
	p.changed = a.checkStacked(p, a.table.config.Host.Snapshot()) || p.changed // before frames come
	for len(o.ready) > 0 {
		s := o.ready[0]
		o.ready = o.ready[1:]
		if err := a.startLink(p, s, l); err != nil {
			a.removeLinks(p)
			return err
		}
	}
	return nil
}

// describe is the interface as the driver is to know it.
func (a *Attachments) describe(p *attachment) (Link, error) {
	l := Link{IfIndex: p.info.Index, MAC: p.info.Addr, VLAN: p.VLAN, MTU: p.info.MTU, Checksum: p.Checksum, Role: p.role, Base: -1}
	if p.On != p.Name {
		on, ok := a.table.config.Host.Snapshot().LinkByName(p.On)
		if !ok {
			return l, fmt.Errorf("offload: On %q: %w", p.On, unix.ENODEV)
		}
		l.IfIndex, l.MAC = on.Index, on.MAC // its MTU the stack follows, up to the device's, whose buffers the frames come from and go to
	}
	return l, nil
}

// startLink makes a queue a link of the attachment; on an error it is closed.
func (a *Attachments) startLink(p *attachment, s link.Staged, l Link) error {
	if s.Info().Headroom < MaxHeaders {
		return errors.Join(fmt.Errorf("offload: %s: headroom %d: %w", p.Name, s.Info().Headroom, unix.EINVAL), s.Close())
	}
	if err := s.Start(); err != nil {
		return err
	}
	l.Link = s
	if err := a.addLink(p, l); err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}

// MaxHeaders is what is pushed before a payload: Ethernet, a tag, IPv4, UDP.
const MaxHeaders = 14 + 4 + 20 + 8

// addLink puts a link into the flat list, at a place that the attachment had before, at one of an attachment that has left, or at a new one.
func (a *Attachments) addLink(p *attachment, l Link) error {
	l.Fresh = p.count == len(p.places)
	if n := len(a.unused); l.Fresh && n > 0 {
		p.places = append(p.places, a.unused[n-1])
		a.unused = a.unused[:n-1]
	} else if l.Fresh {
		p.places = append(p.places, len(a.links))
		a.links = append(a.links, Link{})
	}
	place := p.places[p.count]
	if l.Base < 0 {
		l.Base = place
	}
	if err := a.events.LinkAdded(place, &l); err != nil {
		return err
	}
	a.links[place] = l
	p.count++
	return nil
}

// removeLinks takes the attachment's links, and those of its children, out of the flat list. Closing them is left to a job.
func (a *Attachments) removeLinks(p *attachment) {
	for _, child := range a.list {
		if child.base == p && child.isAttached() {
			a.removeLinks(child)
			child.move(Closed)
		}
	}
	for _, place := range p.places[:p.count] {
		l := a.links[place].Link
		a.events.LinkRemoved(place, l)
		if s, ok := l.(link.Staged); ok { // a childLink is closed with its base
			s.Stop()
			a.events.LinkStopped(place, l)
			p.removed = append(p.removed, s)
		}
		a.links[place].Link = nil
	}
	p.count, p.holdsBack = 0, false
}

// closeRemains has a job close what the attachment had, if anything. The state is busy meanwhile, or idle at once.
func (a *Attachments) closeRemains(p *attachment, busy, idle State) {
	if !p.hasRemains() {
		p.move(idle)
	} else if p.move(busy) {
		a.startClosing(p)
	}
}

// startClosing closes what the attachment had. Its buffers are in the pool again when that is done.
func (a *Attachments) startClosing(p *attachment) {
	removed, surplus, dead := p.removed, p.surplus, p.dead
	p.removed, p.surplus, p.dead = nil, nil, nil
	p.job = a.Start(func() {
		for _, l := range removed {
			_ = l.Shut() // Retire has it too
		}
		for _, q := range surplus {
			_ = q.Close() // never carried anything
		}
		if dead != nil { // after its links, which speak to it
			_ = dead.Close() // the device is gone: an error of closing it says nothing more
		}
	}, func() {
		for _, l := range removed {
			_ = l.Retire() // of a link that is gone, which is why it is closed
			a.events.LinkClosed(l)
		}
		switch p.state {
		case Closing:
			p.move(Closed)
		case Trimming:
			p.move(Attached)
		case Lost:
			a.closeRemains(p, Closing, Closed)
		}
	})
}

// loseLinks gives up the links of an attachment that is attached, and the device if that is dead. It is tried again soon.
func (a *Attachments) loseLinks(p *attachment, dead bool) {
	a.removeLinks(p)
	if dead { // for all rings
		a.table.mu.Lock()
		p.dead = p.nic.markLost(p.serial, a.now)
		a.table.mu.Unlock()
	}
	if p.state == Attached {
		a.closeRemains(p, Closing, Closed)
	} else {
		p.move(Lost)
	}
	p.backoff = retryFirst
	p.next = a.now + p.backoff
}

// leave begins an attachment's end: its claims are released, and its links removed.
func (a *Attachments) leave(p *attachment) {
	a.events.TargetRemoved(p.claimTarget())
	a.removeLinks(p)
	if p.move(Leaving) && p.job == nil && p.hasRemains() {
		a.startClosing(p)
	}
}

// continueLeaving goes on with that: links and device are closed by jobs.
func (a *Attachments) continueLeaving(p *attachment) {
	if p.job != nil {
		return
	}
	if p.hasRemains() {
		a.startClosing(p)
		return
	}
	for _, child := range a.list {
		if child.base == p {
			return
		}
	}
	if p.dead = a.release(p); p.dead != nil {
		a.startClosing(p)
		return
	}
	a.drop(p)
}
