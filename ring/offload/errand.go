package offload

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// errand is work for a part that its ring's goroutine does not wait for: opening an interface and binding a socket wait for locks that all
// configuration of the kernel's network takes, closing one waits for receivers on every processor. Some milliseconds, hundreds under load.
//
//	owner     begin ··· polls on, by the shadows ··· collect: finish
//	errand      └─ work ──────────────────────────────┘
//
// A part has one at a time, the driver a queue of them for ties (see renumber). Work touches what is its own, the carrier under the exchange's lock, and of the driver what never changes;
// finish is the owner's and swaps in what has come of it.
type errand struct {
	ended  chan struct{}
	finish func()
}

// begin sends one off.
func (d *driver) begin(p *part, work, finish func()) { p.errand = d.beside(work, finish) }

// beside has work done on another goroutine. The owner is woken when it has ended.
func (d *driver) beside(work, finish func()) *errand {
	e := &errand{make(chan struct{}), finish}
	go func() {
		work()
		close(e.ended)
		d.arrived.Store(true) // before resting is looked at: rest does it the other way round
		d.rouse()
	}()
	return e
}

func (e *errand) over() bool {
	select {
	case <-e.ended:
		return true
	default:
		return false
	}
}

// collect finishes the part's errand if its work is done, and has closed what waits for that.
func (d *driver) collect(p *part) {
	if e := p.errand; e != nil && e.over() {
		p.errand = nil
		e.finish()
	}
	if p.errand == nil && (len(p.leaving) > 0 || len(p.spare) > 0 || p.dead != nil) {
		d.discard(p)
	}
}

// await ends the part's errands, for a driver that is closed or a part that is given up.
func (d *driver) await(p *part) {
	for d.collect(p); p.errand != nil; d.collect(p) {
		<-p.errand.ended
	}
}

// discard closes what the part has lost. Its buffers come home when that is done.
func (d *driver) discard(p *part) {
	leaving, spare, dead := p.leaving, p.spare, p.dead
	p.leaving, p.spare, p.dead = nil, nil, nil
	d.begin(p, func() {
		for _, l := range leaving {
			_ = l.Shut() // Retire has it too
		}
		for _, q := range spare {
			_ = q.Close() // never carried anything
		}
		if dead != nil { // after its links, which speak to it
			_ = dead.Close() // it is gone: whatever it says of that is no news
		}
	}, func() {
		for _, l := range leaving {
			_ = l.Retire() // of a link that is gone, which is why it is closed
			d.recall(l)
		}
	})
}

// opening is what an errand that opens queues brings home.
type opening struct {
	dev    Device
	serial uint64
	queues []int // those that were to be opened
	fill   int   // of each
	ready  []link.Staged
	err    error
}

// prepare opens the queues, until one cannot be had.
func (o *opening) prepare(d *driver) {
	for _, q := range o.queues {
		l, err := o.dev.PrepareQueue(q, d.pool, o.fill)
		if err != nil {
			o.err = err
			return
		}
		o.ready = append(o.ready, l)
	}
}

// recover tries to have a lost interface back, and the part's queues there.
func (d *driver) recover(p *part) {
	o, c, now := &opening{}, p.carrier, d.now
	d.begin(p, func() {
		o.err = d.config.Exchange.space.do(func() error {
			if dead := c.loseOutdated(now); dead != nil {
				_ = dead.Close() // its interface is gone
			}
			if err := c.reopen(now); err != nil {
				return err
			}
			if o.err = c.current(o, d.number, p.Queues); o.err == nil {
				o.fill = p.fill(len(o.queues), d.pool)
				o.prepare(d)
			}
			return o.err
		})
	}, func() { d.recovered(p, o) })
}

// recovered takes home what recover has opened.
func (d *driver) recovered(p *part, o *opening) {
	old, err := p.host, o.err
	if err == nil && (d.closed || p.quits) { // nobody's any more: all of it is closed
		err = link.ErrClosed
	}
	if err == nil {
		err = d.serve(p, o)
	}
	p.spare = append(p.spare, o.ready...)
	switch {
	case d.closed, p.quits:
	case err == nil:
		d.renumber(p, old)
	default:
		p.lost, p.program = reasonOf(err), p.carrier.programNow()
		d.stats.RetryFailures++
		d.putOff(p)
	}
}

// putOff is when the part is tried again: later each time.
func (d *driver) putOff(p *part) {
	p.backoff = min(2*max(p.backoff, retryFirst), retryLast)
	p.next = max(d.now, d.clock()) + p.backoff
}

// due is when a part is to be looked at again; clock.Never while all are well.
func (d *driver) due() clock.Time {
	next := clock.Never
	for _, p := range d.parts {
		if p.errand == nil && (!p.open || p.refused.Code != "") { // an errand tells of its end itself
			next = min(next, p.next)
		}
	}
	for _, b := range d.bonds {
		next = min(next, b.next)
	}
	return next
}
