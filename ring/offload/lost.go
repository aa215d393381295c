package offload

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// shutPart gives the links up. Those whose closing takes long are left to an errand, which collect or await sends off.
func (d *driver) shutPart(p *part) {
	for _, side := range d.parts {
		if side.base == p && side.open {
			d.shutPart(side)
		}
	}
	for _, i := range p.links[:p.count] {
		l := d.links[i].Link
		d.stack.SetDown(i, true)
		if _, ok := l.(lent); ok {
			// closed where it belongs
		} else if s, ok := l.(link.Staged); ok {
			_ = d.list.Control(unix.EPOLL_CTL_DEL, l.FD(), 0, 0, 0) // refused for one that is gone already
			s.Stop()
			d.past[i].add(l)
			p.leaving = append(p.leaving, s)
		} else {
			_ = l.Close() // of a link that is gone, which is why it is closed
			d.past[i].add(l)
			d.recall(l)
		}
		d.links[i].Link = &absent{info: l.Info(), path: l.Path()}
	}
	p.open, p.count = false, 0
}

// recall takes back the packets with a token that a closed link has not sent: they are told of now.
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
	d.arrived.Store(false) // before they are collected
	d.collectTies()
	changed := d.checkBonds(s)
	for _, p := range slices.Clone(d.parts) { // parts that have left a bond go
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
	was, serial := p.why().Code, p.serial
	if p.tying != nil && !slices.Contains(d.ties, p.tying) {
		p.tying = nil
	}
	if d.collect(p); p.quits {
		d.quitFurther(p)
		return false
	}
	if p.base != nil {
		d.checkSide(p)
	}
	l, here := s.LinkByName(p.Name)
	up := here && l.Up() && (l.Carrier() || p.bond != nil)
	if p.open && p.base == nil {
		var dead bool
		if p.lost, dead = d.inspect(p, &l, here); dead {
			d.losePart(p)
		} else if d.holds(p) {
			d.emptyPart(p)
		}
	}
	if p.open {
		if p.off.Code == "" || p.base == nil {
			p.off = d.checkOn(p, s)
		}
		for _, i := range p.links[:p.count] {
			d.stack.SetDown(i, p.why().Code != "")
			d.stack.SetDeaf(i, p.off.Code != "")
		}
	}
	switch {
	case p.open, p.base != nil:
	case !here:
		p.lost, p.next = p.gone(), clock.Never // until the mirror tells
	case !up: // nothing would come, and the addresses are not back yet
		if p.lost, p.next = p.down(), clock.Never; l.Up() {
			p.lost = p.noCarrier()
		}
	case p.errand == nil && (d.now >= p.next || p.next == clock.Never || l.Program != p.program):
		d.recover(p)
	}
	changed = p.open && d.reviewStanding(p, s)
	return changed || p.why().Code != was || p.serial != serial
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
	switch {
	case !l.Up():
		return p.down(), false
	case !l.Carrier() && p.bond == nil: // of members the bond's own looks decide
		return p.noCarrier(), false
	}
	return ring.Reason{}, false
}

// holds tells whether the part's links hold frames that are not to leave any more: the interface was down, or is, or has no carrier, and the
// kernel has not read them.
func (d *driver) holds(p *part) bool {
	for _, i := range p.links[:p.count] {
		if d.stuck[i] || p.lost.Code != "" && d.links[i].Link.Pending() {
			return true
		}
	}
	return false
}

// emptyPart gives up the part's links with the frames in them, which no call takes back out of a ring that the kernel reads. The device stays:
// its queues are opened again when the interface is up.
func (d *driver) emptyPart(p *part) {
	if p.lost.Code == "" { // the mirror has not told yet, or the interface is up again
		p.lost = p.down()
	}
	d.shutPart(p)
	d.collect(p)
	p.backoff = retryFirst
	p.next = d.now + p.backoff
}

func (p *part) gone() ring.Reason {
	return ring.Reason{Code: "link.gone", Text: "interface " + p.Name + " was deleted"}
}

func (p *part) down() ring.Reason {
	return ring.Reason{Code: "link.down", Text: "interface " + p.Name + " is down"}
}

func (p *part) noCarrier() ring.Reason {
	return ring.Reason{Code: "link.no_carrier", Text: "interface " + p.Name + " has no carrier: no cable, or its peer is down"}
}

// losePart gives up what is dead, the device for all drivers.
func (d *driver) losePart(p *part) {
	d.shutPart(p)
	x := d.config.Exchange
	x.mu.Lock()
	p.dead = p.carrier.lose(p.serial, d.now)
	x.mu.Unlock()
	d.collect(p)
	p.backoff = retryFirst
	p.next = d.now + p.backoff
}
