package xtreme

import (
	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
)

// PollerStats are the counters of a poller: those of its rings, and of the buffers that the rings share.
type PollerStats struct {
	Rings   []ring.RingStats // in the order of Poller.Rings
	Buffers buffers.Stats    // requests that found no buffer, misuse, and buffers lent to other goroutines
	Ledger  buffers.Ledger   // how many buffers are in which state now
}

// Stats returns the poller's counters. It allocates, and takes time in proportion to the number of buffers: it is for monitoring, not for each
// Poll. Another goroutine than the owner gets the zero value.
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
