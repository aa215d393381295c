package nic

import (
	"fmt"
	"maps"
	"slices"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// idleQueues is how many queues of an interface have lost the ring that served them: the kernel gets what comes in on those.
type idleQueues struct {
	queues int
	all    bool // no ring serves any
}

// idleQueues counts the interface's queues that no ring serves. Under the table's lock.
func (n *nic) idleQueues() idleQueues {
	v := idleQueues{len(n.idle), true}
	for q := range n.queues {
		v.all = v.all && n.idle[q] // being opened, and not served yet
	}
	return v
}

// announceQueues tells the other rings, by the table's version, that idle queues were taken or left: their sockets' paths may show that. This
// ring knows it already and need not look, unless it has other changes to look at. Under the table's lock.
func (a *Attachments) announceQueues() {
	if v := a.table.version.Add(1); v == a.version+1 {
		a.version = v
	}
}

// checkIdleQueues handles queues whose ring has left. An attachment without a list of queues opens them, as it would have when it was
// made; for an attachment with a list the kernel keeps their traffic, and its sockets' paths say so. It reports whether a path has changed.
func (a *Attachments) checkIdleQueues() (changed bool) {
	for _, p := range a.list {
		if !p.isAttached() || p.base != nil {
			continue // opening takes all that are free
		}
		if p.Queues == nil && p.state == Attached && (p.queueRefused.Code == "" || a.now >= p.retryAt) {
			a.claimIdleQueues(p)
		}
		a.table.mu.Lock()
		now := p.nic.idleQueues()
		a.table.mu.Unlock()
		if now != p.idle || p.count != p.reportedCount {
			p.idle, p.reportedCount, p.changed, changed = now, p.count, true, true
			a.alignChildren(p)
		}
	}
	return changed
}

// claimIdleQueues starts a job that opens the queues that no ring serves. Until it has ended they count as idle. Queues that cannot be opened
// are tried again, see Due.
func (a *Attachments) claimIdleQueues(p *attachment) {
	n, o := p.nic, &openedQueues{}
	a.table.mu.Lock()
	if o.dev, o.serial = n.device, n.serial; o.dev != nil && o.serial == p.serial {
		for _, q := range slices.Sorted(maps.Keys(n.idle)) {
			if n.queues[q] == 0 {
				n.queues[q] = a.ring
				o.queues = append(o.queues, q)
			}
		}
	}
	a.table.mu.Unlock()
	if len(o.queues) == 0 {
		p.queueRefused = link.Reason{}
		return
	}
	if !p.move(Expanding) {
		return
	}
	o.fill = p.fillFor(p.count+len(o.queues), a.pool)
	p.job = a.Start(func() {
		o.err = a.table.config.Netns.Do(func() error {
			o.openQueues(a)
			return o.err
		})
	}, func() { a.finishExpanding(p, o) })
}

// finishExpanding applies the result of claimIdleQueues' job: the queues become links of the attachment; those that cannot are closed.
func (a *Attachments) finishExpanding(p *attachment, o *openedQueues) {
	err, served := o.err, 0
	l, failed := a.describe(p)
	switch {
	case p.state != Expanding, p.serial != o.serial: // lost meanwhile
		err = link.ErrDetached
	case failed != nil:
		err = failed
	default:
		for len(o.ready) > 0 {
			s := o.ready[0]
			o.ready = o.ready[1:]
			if e := a.startLink(p, s, l); e != nil {
				err = e
				break
			}
			served++
		}
	}
	p.surplus = append(p.surplus, o.ready...)
	n := p.nic
	a.table.mu.Lock()
	for i, q := range o.queues {
		if i < served {
			delete(n.idle, q)
		} else { // idle as before
			delete(n.queues, q)
			n.idle[q] = true
		}
	}
	if served > 0 {
		a.announceQueues()
	}
	a.table.mu.Unlock()
	if p.queueRefused = (link.Reason{}); err == nil {
		p.backoff = 0
	} else {
		a.stats.RetryFailures++
		p.queueRefused = reasonOf(err)
		a.scheduleRetry(p)
	}
	switch p.state { // of one that is leaving, continueLeaving closes surplus
	case Expanding:
		a.closeLeftovers(p, Trimming, Attached)
	case Lost:
		a.closeLeftovers(p, Closing, Closed)
	}
}

// idleReason is the reason of sockets on an interface some of whose queues no ring serves.
func (p *attachment) idleReason() link.Reason {
	if p.idle.queues == 0 {
		return link.Reason{Code: "ring.queue_left", Text: "no ring serves a queue of " + p.Name + ": what comes in is the kernel's"}
	}
	r := link.Reason{Code: "ring.queue_left", Text: fmt.Sprintf("the ring that served %d queues of %s was closed: what comes in on them is "+
		"the kernel's, until a ring asks for them", p.idle.queues, p.Name)}
	if p.queueRefused.Code != "" {
		r.Text += "; not taken over: " + p.queueRefused.Text + " [" + p.queueRefused.Code + "]"
	}
	return r
}
