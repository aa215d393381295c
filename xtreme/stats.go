package xtreme

import (
	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
)

// PollerStats are the totals of a poller: those of its rings and of the buffers that they share.
type PollerStats struct {
	Rings   []ring.RingStats // in the order of Rings
	Buffers buffers.Stats    // calls that found no buffer or were misuse, and loans to other goroutines
	Ledger  buffers.Ledger   // the buffers by state, as of now
}

// Stats returns the poller's totals, in time proportional to the number of its buffers. Another goroutine than the owner gets the zero value.
func (p *Poller) Stats() PollerStats {
	if p.set.BeginCall() == ring.ErrOwner {
		return PollerStats{}
	}
	s := PollerStats{Buffers: p.pool.Stats(), Ledger: p.pool.Ledger()}
	for _, r := range p.Rings() {
		s.Rings = append(s.Rings, r.Stats())
	}
	return s
}
