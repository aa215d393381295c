package nic

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// openedQueues is the task and the result of opening queues for an attachment.
type openedQueues struct {
	dev    Device
	serial uint64
	queues []int // those that were to be opened
	fill   int   // of each
	ready  []link.Staged
	err    error
}

// assignQueues notes the interface's device, and reserves the queues of it that the attachment is to serve.
func (o *openedQueues) assignQueues(p *attachment) {
	n, a := p.nic, p.set
	n.table.mu.Lock()
	defer n.table.mu.Unlock()
	if n.device == nil {
		o.err = fmt.Errorf("offload: %s: %w", n.name, link.ErrDetached)
		return
	}
	o.dev, o.serial = n.device, n.serial
	if o.queues, o.err = n.assign(a.ring, p.Queues, p.Share); o.err == nil {
		o.fill = p.fillFor(len(o.queues), a.pool)
	}
}

// openQueues opens the queues, up to the first one that fails.
func (o *openedQueues) openQueues(a *Attachments) {
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

// openNow opens the queues of a new attachment on the calling goroutine, without a job: it may wait for the kernel's configuration lock, so Poll
// does not call it. The device was opened before (acquire, openMember); while it is lost the result is an error. The caller's thread is taken
// to be in the network namespace of the interface: only jobs enter TableConfig.Netns.
func (a *Attachments) openNow(p *attachment) error {
	o := &openedQueues{}
	p.move(Opening) // legal: a new attachment is Closed
	if o.assignQueues(p); o.err == nil {
		o.openQueues(a)
	}
	return a.attach(p, o)
}

// startOpening starts a job that opens the attachment's interface again, and its queues there.
func (a *Attachments) startOpening(p *attachment) {
	if !p.move(Opening) {
		return
	}
	o, n, now := &openedQueues{}, p.nic, a.now
	p.job = a.Start(func() {
		o.err = a.table.config.Netns.Do(func() error {
			if dead := n.dropOutdated(now); dead != nil {
				_ = dead.Close() // its interface is gone
			}
			if err := n.reopen(now); err != nil {
				return err
			}
			if o.assignQueues(p); o.err == nil {
				o.openQueues(a)
			}
			return o.err
		})
	}, func() { a.finishOpening(p, o) })
}

// finishOpening applies the result of startOpening's job: the queues become the attachment's links, or another try is scheduled.
func (a *Attachments) finishOpening(p *attachment, o *openedQueues) {
	if p.state != Opening { // it is leaving: a later job closes the queues
		p.surplus = append(p.surplus, o.ready...)
		return
	}
	old := p.ifIndex // attach sets it; it differs when the interface was deleted and made again
	err := a.attach(p, o)
	a.onInterfaceRemade(p, old) // after an error too: the next try finds the new index noted
	if err != nil {
		// Check tries again at once when another program than this one is on the interface.
		p.lost, p.program = reasonOf(err), p.nic.currentProgram()
		a.stats.RetryFailures++
		a.scheduleRetry(p)
	}
}

// scheduleRetry sets the time of the next try to open the attachment's interface: each wait is twice as long as the last, up to a second.
func (a *Attachments) scheduleRetry(p *attachment) {
	p.backoff = min(2*max(p.backoff, retryFirst), retryLast)
	p.retryAt = max(a.now, a.clock()) + p.backoff // a.now is 0 until the first Check
}

// attach ends Opening: what was opened becomes the attachment's links. On an error it has none, and what was opened is closed by a job.
func (a *Attachments) attach(p *attachment, o *openedQueues) error {
	err := o.err
	if err == nil {
		err = a.startLinks(p, o)
	}
	if err == nil {
		p.lost, p.serial, p.backoff, p.queueRefused = link.Reason{}, o.serial, 0, link.Reason{}
		p.reportedCount = p.count
		p.move(Attached)
		if p.bond != nil {
			a.notifyRoles(p)
		}
		a.alignChildren(p)
		return nil
	}
	p.surplus = append(p.surplus, o.ready...)
	a.closeLeftovers(p, Closing, Closed)
	return err
}

// startLinks makes links of the queues that were opened; what it has not started stays in o.
func (a *Attachments) startLinks(p *attachment, o *openedQueues) error {
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

// describe is the attachment's interface in the form in which the driver receives it, without a link.
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
// The link may carry less than its interface.
func (a *Attachments) addLink(p *attachment, l Link) error {
	l.MTU = min(l.MTU, l.Link.Info().MTU)
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
	p.count, p.refusedFrames = 0, false
}

// closeLeftovers starts a job that closes links and device which the attachment had, if there are any. The state is busy meanwhile, and
// otherwise idle at once.
func (a *Attachments) closeLeftovers(p *attachment, busy, idle State) {
	if !p.hasLeftovers() {
		p.move(idle)
	} else if p.move(busy) {
		a.startClosing(p)
	}
}

// startClosing starts the job that closes removed links, surplus queues and a dead device. When it has finished their buffers are in the pool
// again.
func (a *Attachments) startClosing(p *attachment) {
	removed, surplus, dead := p.removed, p.surplus, p.dead
	p.removed, p.surplus, p.dead = nil, nil, nil
	p.job = a.Start(func() {
		for _, l := range removed {
			_ = l.Shut() // its error is Retire's too
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
		switch p.state { // of one that is leaving the state stays: continueLeaving goes on
		case Closing:
			p.move(Closed)
		case Trimming:
			p.move(Attached)
		case Lost:
			a.closeLeftovers(p, Closing, Closed)
		}
	})
}

// loseDevice is loseLinks for an attachment whose device is dead: the device is lost too, for all rings.
func (a *Attachments) loseDevice(p *attachment) {
	a.removeLinks(p)
	a.table.mu.Lock()
	if dev := p.nic.markLost(p.serial, a.now); dev != nil {
		p.dead = dev
	}
	a.table.mu.Unlock()
	a.closeAndRetry(p)
}

// loseLinks removes the links of an attachment whose interface is lost, and keeps the device.
func (a *Attachments) loseLinks(p *attachment) {
	a.removeLinks(p)
	a.closeAndRetry(p)
}

// closeAndRetry starts to close what loseLinks and loseDevice have removed. The first try to open it again is after retryFirst.
func (a *Attachments) closeAndRetry(p *attachment) {
	if p.state == Attached {
		a.closeLeftovers(p, Closing, Closed)
	} else {
		p.move(Lost)
	}
	p.backoff = retryFirst
	p.retryAt = a.now + p.backoff
}

// startLeaving begins to remove an attachment: its claims are released, and its links leave the flat list.
func (a *Attachments) startLeaving(p *attachment) {
	a.events.TargetRemoved(p.claimTarget()) // first, so that the kernel gets the frames that the links no longer take
	a.removeLinks(p)
	if p.move(Leaving) && p.job == nil && p.hasLeftovers() {
		a.startClosing(p)
	}
}

// continueLeaving continues startLeaving in later calls of Check: jobs close links and device, then the attachment leaves the list, after its
// children.
func (a *Attachments) continueLeaving(p *attachment) {
	if p.job != nil {
		return
	}
	if p.hasLeftovers() {
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
	a.removeLeft(p)
}
