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

// idleQueues counts. Under the lock.
func (n *nic) idleQueues() idleQueues {
	v := idleQueues{len(n.idle), true}
	for q := range n.queues {
		v.all = v.all && n.idle[q] // being opened, and not served yet
	}
	return v
}

// announceQueues has the other rings look: one that told its sockets that no ring serves a queue has news for them. This ring need not,
// unless it has something to look at already. Under the lock.
func (a *Attachments) announceQueues() {
	if v := a.table.version.Add(1); v == a.version+1 {
		a.version = v
	}
}

// checkIdleQueues sees to queues whose ring has left. An attachment without a list of its own claims them, as it would have when it was
// made; for one with a list the kernel keeps them, and its sockets are told. It reports whether a path has changed.
func (a *Attachments) checkIdleQueues() (changed bool) {
	for _, p := range a.list {
		if !p.isAttached() || p.base != nil {
			continue // opening takes all that are free
		}
		if p.Queues == nil && p.state == Attached && (p.refused.Code == "" || a.now >= p.next) {
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

// claimIdleQueues has the queues opened that no ring serves any more. They are idle until that is done. What cannot be had is tried again,
// see Due.
func (a *Attachments) claimIdleQueues(p *attachment) {
	n, o := p.nic, &opened{}
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
		p.refused = link.Reason{}
		return
	}
	if !p.move(Expanding) {
		return
	}
	o.fill = p.fillFor(p.count+len(o.queues), a.pool)
	p.job = a.Start(func() {
		o.err = a.table.config.Netns.Do(func() error {
			o.prepare(a)
			return o.err
		})
	}, func() { a.finishExpanding(p, o) })
}

// finishExpanding takes over what claimIdleQueues has opened.
func (a *Attachments) finishExpanding(p *attachment, o *opened) {
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
		} else {
			delete(n.queues, q)
			n.idle[q] = true
		}
	}
	if served > 0 {
		a.announceQueues()
	}
	a.table.mu.Unlock()
	if p.refused = (link.Reason{}); err == nil {
		p.backoff = 0
	} else {
		a.stats.RetryFailures++
		p.refused = reasonOf(err)
		a.scheduleRetry(p)
	}
	switch p.state {
	case Expanding:
		a.closeRemains(p, Trimming, Attached)
	case Lost:
		a.closeRemains(p, Closing, Closed)
	}
}

// idleReason is the reason of sockets on an interface some of whose queues no ring serves.
func (p *attachment) idleReason() link.Reason {
	if p.idle.queues == 0 {
		return link.Reason{Code: "ring.queue_left", Text: "no ring serves a queue of " + p.Name + ": what comes in is the kernel's"}
	}
	r := link.Reason{Code: "ring.queue_left", Text: fmt.Sprintf("the ring that served %d queues of %s was closed: what comes in on them is "+
		"the kernel's, until a ring asks for them", p.idle.queues, p.Name)}
	if p.refused.Code != "" {
		r.Text += "; not taken over: " + p.refused.Text + " [" + p.refused.Code + "]"
	}
	return r
}
