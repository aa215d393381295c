package offload

import (
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Several parts may have one device: eth0 and eth0.5, eth0.5 and eth0.6. The first, their base, has the links; the others have a place in the
// driver's list for each of them, by which they send. What comes in the stack tells apart by its tag (stack.Interface.Wire).
//
//	base   eth0    links[0] = queue 0      links[1] = queue 1
//	side   eth0.5  links[2] = lent, of 0   links[3] = lent, of 1

// lent is a link in the place of a side: it sends. All else its base's place does.
type lent struct{ link.Link }

func (lent) Receive([]link.Frame) int                   { return 0 }
func (lent) Complete([]link.Done) int                   { return 0 }
func (lent) Unsent() int                                { return 0 }
func (lent) FD() int                                    { return -1 }
func (lent) Arm() bool                                  { return false }
func (lent) Disarm()                                    {}
func (lent) Stats() link.Stats                          { return link.Stats{} }
func (lent) Counters(dst []link.Counter) []link.Counter { return dst }
func (lent) Close() error                               { return nil }

// align gives the sides of a part places for its links.
func (d *driver) align(base *part) {
	for _, p := range d.parts {
		if p.base != base || p.quits {
			continue
		}
		if p.serial != base.serial || p.open != base.open { // others by now
			d.shutPart(p)
		}
		p.vacant, p.told, p.serial = base.vacant, base.told, base.serial
		if p.lost = base.lost; base.open {
			p.off = d.lend(p)
		}
	}
}

// lend gives a side what it lacks of its base's links, and tells why it cannot be.
func (d *driver) lend(p *part) ring.Reason {
	p.open, p.info = true, p.base.info
	for p.count < p.base.count {
		at := p.base.links[p.count]
		l := d.links[at].Link
		in, err := d.host(p, p.info)
		if err != nil {
			return p.missing()
		}
		old := p.host
		p.host, in.Wire = in.Index, at+1
		if err := d.install(p, lent{l}, in); err != nil {
			return ring.Reason{Code: "link.detached", Text: err.Error()}
		}
		if old != 0 && old != p.host {
			d.renumber(p, old)
		}
	}
	p.moved = d.reviewStanding(p, d.config.Exchange.config.Host.Snapshot()) || p.moved
	if p.bond != nil {
		d.placeMember(p)
	}
	if _, ok := d.config.Exchange.config.Host.Snapshot().LinkByName(p.On); !ok {
		return p.missing()
	}
	return ring.Reason{}
}

// checkSide is checkPart for a part without links of its own.
func (d *driver) checkSide(p *part) {
	if p.serial != p.base.serial || p.open != p.base.open || p.count != p.base.count {
		d.align(p.base)
	}
	if p.lost = p.base.lost; p.open {
		p.off = d.lend(p)
	}
}

// checkOn looks at the interface that has the part's addresses, where that is not the device: it may be down, be gone, or have another
// number.
func (d *driver) checkOn(p *part, s *host.Snapshot) ring.Reason {
	if p.On == p.Name {
		return ring.Reason{}
	}
	l, here := s.LinkByName(p.On)
	switch {
	case !here:
		return p.missing()
	case !l.Up():
		return ring.Reason{Code: "link.down", Text: "interface " + p.On + " is down"}
	case l.Index == p.host:
		return ring.Reason{}
	}
	old := p.host
	for _, i := range p.links[:p.count] {
		in, err := d.host(p, p.info)
		if err != nil {
			return p.missing()
		}
		in.Wire = d.stack.Interface(i).Wire
		d.links[i].Index, p.host = in.Index, in.Index
		d.stack.Renew(i, in)
	}
	if p.bond != nil {
		d.placeMember(p)
	}
	if p.host != old {
		d.renumber(p, old)
	}
	return ring.Reason{}
}

func (p *part) missing() ring.Reason {
	return ring.Reason{Code: "link.gone", Text: "interface " + p.On + " was deleted"}
}
