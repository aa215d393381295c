package offload

import (
	"fmt"
	"maps"
	"slices"

	"github.com/socketxtreme/socketxtreme/ring"
)

// vacancy is how many queues of an interface have lost the driver that served them: what comes in on those is the kernel's.
type vacancy struct {
	queues int
	all    bool // no driver serves any
}

// vacancy counts. Under the exchange's lock.
func (c *carrier) vacancy() vacancy { return vacancy{len(c.orphans), len(c.owners) == 0} }

// inherit sees to queues whose driver has left the exchange. A part without a list of its own takes them, as it would have when it was
// made; for one with a list they stay the kernel's, and its sockets are told.
func (d *driver) inherit() {
	changed := false
	for _, p := range d.parts {
		if !p.open {
			continue // recover takes all that are free
		}
		had := p.count
		if p.Queues == nil && (p.refused.Code == "" || d.now >= p.next) {
			d.takeOrphans(p)
		}
		x := d.config.Exchange
		x.mu.Lock()
		now := p.carrier.vacancy()
		x.mu.Unlock()
		if now != p.vacant || p.count != had {
			p.vacant, p.moved, changed = now, true, true
		}
	}
	if changed {
		d.stats.PathChanges++
		d.moved = true
		d.shadow.now = true
	}
}

// takeOrphans opens the queues that nobody serves any more. What cannot be had is tried again, see due.
func (d *driver) takeOrphans(p *part) {
	c, x := p.carrier, d.config.Exchange
	x.mu.Lock()
	dev := c.device
	var list []int
	if dev != nil && c.serial == p.serial {
		list = slices.Sorted(maps.Keys(c.orphans))
	}
	for _, q := range list {
		c.owners[q] = d.number
		delete(c.orphans, q)
	}
	x.mu.Unlock()
	p.refused = ring.Reason{}
	if len(list) == 0 {
		return
	}
	in, err := d.host(p, dev)
	for i, q := range list {
		if err == nil {
			err = d.openQueue(p, dev, in, q, p.fill(p.count+len(list)-i, d.pool))
		}
		if err != nil {
			d.leaveOrphans(p, list[i:], err)
			return
		}
	}
	p.backoff = 0
	d.shadow.first = claimTurns // what the kernel had of the flows is older
}

// leaveOrphans gives back queues that could not be opened.
func (d *driver) leaveOrphans(p *part, list []int, err error) {
	c, x := p.carrier, d.config.Exchange
	x.mu.Lock()
	for _, q := range list {
		delete(c.owners, q)
		c.orphans[q] = true
	}
	x.mu.Unlock()
	d.stats.RetryFailures++
	p.refused = reasonOf(err)
	p.backoff = min(2*max(p.backoff, retryFirst), retryLast)
	p.next = d.now + p.backoff
}

// vacated is the reason of sockets on an interface some of whose queues nobody serves.
func (p *part) vacated() ring.Reason {
	if p.vacant.queues == 0 {
		return ring.Reason{Code: "ring.queue_left", Text: "no ring serves a queue of " + p.Name + ": what comes in is the kernel's"}
	}
	r := ring.Reason{Code: "ring.queue_left", Text: fmt.Sprintf("the ring that served %d queues of %s was closed: what comes in on them is "+
		"the kernel's, until a ring asks for them", p.vacant.queues, p.Name)}
	if p.refused.Code != "" {
		r.Text += "; not taken over: " + p.refused.Text + " [" + p.refused.Code + "]"
	}
	return r
}
