package offload

import (
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// shutPart closes the links. Frames that were to be told of and did not go out are told now.
func (d *driver) shutPart(p *part) {
	for _, i := range p.links[:p.count] {
		l := d.links[i].Link
		d.stack.SetDown(i, true)
		// Its descriptor leaves the epoll list with closing; an error here is of a link that is gone, which is why it is closed.
		if r, ok := l.(interface{ Retire() error }); ok {
			_ = r.Retire()
		} else {
			_ = l.Close()
		}
		d.past[i].add(l)
		d.recall(l)
		d.links[i].Link = &absent{info: l.Info(), path: l.Path()}
	}
	p.open, p.count = false, 0
}

// recall takes back the packets with a token that a closed link has not sent.
func (d *driver) recall(l link.Link) {
	for {
		n := l.Complete(d.dones[:])
		for j := range d.dones[:n] {
			f := d.land(d.dones[j].Token)
			f.t.Home = true
			d.results = append(d.results, result{f, unix.ENETDOWN})
		}
		if n == 0 {
			return
		}
	}
}

// checkParts notices interfaces that went down, lost their program or were deleted, and those that came back.
func (d *driver) checkParts() {
	s := d.config.Exchange.config.Host.Snapshot()
	d.seen = s.Generation()
	changed := false
	for _, p := range d.parts {
		p.moved = d.checkPart(p, s) || p.moved
		changed = changed || p.moved
	}
	d.inherit()
	if changed {
		d.stats.PathChanges++
		d.moved = true
		d.shadow.now = true
	}
}

// checkPart tells whether the part's way has changed.
func (d *driver) checkPart(p *part, s *host.Snapshot) (changed bool) {
	was, serial := p.lost.Code, p.serial
	l, here := s.LinkByName(p.Name)
	up := here && l.Up()
	if p.open {
		var dead bool
		if p.lost, dead = d.inspect(p, &l, here); dead {
			d.losePart(p)
		}
		for _, i := range p.links[:p.count] {
			d.stack.SetDown(i, !up)
		}
	}
	switch {
	case p.open:
	case !here:
		p.lost, p.next = p.gone(), d.now+retryLast
	case !up:
		p.lost, p.next = p.down(), d.now+retryLast
	case d.now >= p.next:
		d.recover(p, &l)
	}
	return p.lost.Code != was || p.serial != serial
}

// inspect tells why a part carries nothing, and whether it is dead: its links are to be closed.
func (d *driver) inspect(p *part, l *host.Link, here bool) (why ring.Reason, dead bool) {
	c, x := p.carrier, d.config.Exchange
	x.mu.Lock()
	dev, serial, index := c.device, c.serial, c.index
	if c.tellAddresses() != nil {
		d.stats.AddressFailures++
	}
	x.mu.Unlock()
	switch {
	case !here, l.Index != index && serial == p.serial:
		return p.gone(), true
	case dev == nil, serial != p.serial:
		return ring.Reason{Code: "link.detached", Text: "the steering program is not on " + p.Name + " any more"}, true
	}
	if err := dev.Check(); err != nil {
		return ring.Reason{Code: "link.detached", Text: err.Error()}, true
	}
	for _, i := range p.links[:p.count] {
		if err := d.links[i].Link.Check(); err != nil {
			return ring.Reason{Code: "link.detached", Text: err.Error()}, true
		}
	}
	if !l.Up() {
		return p.down(), false
	}
	return ring.Reason{}, false
}

func (p *part) gone() ring.Reason {
	return ring.Reason{Code: "link.gone", Text: "interface " + p.Name + " was deleted"}
}

func (p *part) down() ring.Reason {
	return ring.Reason{Code: "link.down", Text: "interface " + p.Name + " is down"}
}

// losePart closes what is dead, the device for all drivers.
func (d *driver) losePart(p *part) {
	d.shutPart(p)
	x := d.config.Exchange
	x.mu.Lock()
	p.carrier.lose(p.serial, d.now)
	x.mu.Unlock()
	p.backoff = retryFirst
	p.next = d.now + p.backoff
}

// recover tries to have the interface back.
func (d *driver) recover(p *part, l *host.Link) {
	c, x := p.carrier, d.config.Exchange
	x.mu.Lock()
	c.reopen(l, d.now)
	failed, there := c.failed, c.device != nil
	x.mu.Unlock()
	var err error
	if there {
		old := p.host
		if err = d.openPart(p); err == nil {
			d.renumber(p, old)
			return
		}
		failed = reasonOf(err)
	}
	if failed.Code != "" {
		p.lost = failed
	}
	d.stats.RetryFailures++
	p.backoff = min(2*max(p.backoff, retryFirst), retryLast)
	p.next = d.now + p.backoff
}

// due is when a part is to be looked at again; clock.Never while all are well.
func (d *driver) due() clock.Time {
	next := clock.Never
	for _, p := range d.parts {
		if !p.open || p.refused.Code != "" {
			next = min(next, p.next)
		}
	}
	return next
}
