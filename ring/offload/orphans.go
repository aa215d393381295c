package offload

import (
	"fmt"
	"maps"
	"slices"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// vacancy is how many queues of an interface have lost the driver that served them: what comes in on those is the kernel's.
type vacancy struct {
	queues int
	all    bool // no driver serves any
}

// vacancy counts. Under the exchange's lock.
func (c *carrier) vacancy() vacancy {
	v := vacancy{len(c.orphans), true}
	for q := range c.owners {
		v.all = v.all && c.orphans[q] // being taken, and not served yet
	}
	return v
}

// inherit sees to queues whose driver has left the exchange. A part without a list of its own takes them, as it would have when it was
// made; for one with a list they stay the kernel's, and its sockets are told.
func (d *driver) inherit() {
	changed := false
	for _, p := range d.parts {
		if !p.open || p.base != nil {
			continue // recover takes all that are free
		}
		if p.Queues == nil && p.errand == nil && (p.refused.Code == "" || d.now >= p.next) {
			d.takeOrphans(p)
		}
		x := d.config.Exchange
		x.mu.Lock()
		now := p.carrier.vacancy()
		x.mu.Unlock()
		if now != p.vacant || p.count != p.told {
			p.vacant, p.told, p.moved, changed = now, p.count, true, true
			d.align(p)
		}
	}
	if changed {
		d.stats.PathChanges++
		d.moved = true
		d.shadow.now = true
	}
}

// takeOrphans has the queues opened that nobody serves any more. They are orphans until that is done. What cannot be had is tried again,
// see due.
func (d *driver) takeOrphans(p *part) {
	c, x := p.carrier, d.config.Exchange
	o := &opening{}
	x.mu.Lock()
	if o.dev, o.serial = c.device, c.serial; o.dev != nil && o.serial == p.serial {
		for _, q := range slices.Sorted(maps.Keys(c.orphans)) {
			if c.owners[q] == 0 {
				c.owners[q] = d.number
				o.queues = append(o.queues, q)
			}
		}
	}
	x.mu.Unlock()
	if len(o.queues) == 0 {
		p.refused = ring.Reason{}
		return
	}
	o.fill = p.fill(p.count+len(o.queues), d.pool)
	d.begin(p, func() {
		o.err = x.space.do(func() error {
			o.prepare(d)
			return o.err
		})
	}, func() { d.tookOrphans(p, o) })
}

// tookOrphans takes home what takeOrphans has opened.
func (d *driver) tookOrphans(p *part, o *opening) {
	err, served := o.err, 0
	in, failed := d.host(p, o.dev.Info())
	switch {
	case d.closed, p.quits, !p.open, p.serial != o.serial: // lost meanwhile
		err = link.ErrDetached
	case failed != nil:
		err = failed
	default:
		for len(o.ready) > 0 {
			l := o.ready[0]
			o.ready = o.ready[1:]
			if e := d.start(p, l, in); e != nil {
				err = e
				break
			}
			served++
		}
	}
	p.spare = append(p.spare, o.ready...)
	c, x := p.carrier, d.config.Exchange
	x.mu.Lock()
	for i, q := range o.queues {
		if i < served {
			delete(c.orphans, q)
		} else {
			delete(c.owners, q)
			c.orphans[q] = true
		}
	}
	x.mu.Unlock()
	if p.refused = (ring.Reason{}); err == nil {
		p.backoff = 0
	} else {
		d.stats.RetryFailures++
		p.refused = reasonOf(err)
		d.putOff(p)
	}
	if served > 0 {
		x.version.Add(1)
		d.shadow.first = claimTurns // what the kernel had of the flows is older
	}
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
