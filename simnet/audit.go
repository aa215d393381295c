package simnet

import "fmt"

// Audit checks that nothing was lost without a count: each line's frames have arrived, are lost for a cause or are on their way; each switch
// has sent on what it received; each card has delivered, lost or kept what arrived; each pool's buffers are all in a known state. Run does it
// at its end.
func (w *World) Audit() error {
	flying := map[*Line]uint64{}
	places := map[*frame]int32{} // where a frame is, as often as it is there
	for i := range w.agenda.list {
		if e := &w.agenda.list[i]; e.kind == evArrival {
			flying[e.line]++
			places[e.frame]++
		}
	}
	for _, l := range w.lines {
		s := &l.stats
		if s.InFlight != flying[l] || s.Sent+s.Duplicated != s.Arrived+s.Losses()+s.InFlight {
			return fmt.Errorf("simnet: losses: %s: sent %d and duplicated %d, but arrived %d, lost %d and in flight %d of %d",
				l.name, s.Sent, s.Duplicated, s.Arrived, s.Losses(), flying[l], s.InFlight)
		}
	}
	for _, x := range w.switches {
		var in, out uint64
		for _, l := range w.lines {
			if l.to.sw == x {
				in += l.stats.Arrived
			}
		}
		for _, l := range x.ports {
			out += l.stats.Sent
		}
		s := &x.stats
		if in != s.Received || out != s.Received-s.Filtered+s.Copies+s.Queries {
			return fmt.Errorf("simnet: losses: switch %s: %d frames came and %d went, its books say %+v", x.name, in, out, *s)
		}
	}
	for _, h := range w.hosts {
		for _, n := range h.nics {
			for i := range n.n {
				places[n.rx[(n.head+i)%len(n.rx)].f]++
			}
			if n.in != n.stats.RxFrames+n.stats.RxLost+uint64(n.n) {
				return fmt.Errorf("simnet: losses: %s: %d frames came, %d were received, %d lost, %d wait",
					n.label(), n.in, n.stats.RxFrames, n.stats.RxLost, n.n)
			}
		}
		if l := h.pool.Ledger(); l.Sum() != l.Total {
			return fmt.Errorf("simnet: ledger: host %s: %+v", h.name, l)
		}
	}
	if len(places) != w.alive {
		return fmt.Errorf("simnet: losses: %d frames are alive, and %d are somewhere", w.alive, len(places))
	}
	for f, n := range places {
		if f.refs != n {
			return fmt.Errorf("simnet: losses: a frame of %d bytes has %d references and is in %d places", len(f.b), f.refs, n)
		}
	}
	return nil
}

// close ends the host and checks its pool.
func (h *Host) close() (err error) {
	defer func() {
		if p := recover(); p != nil { // what a panic before has left half done may not close
			err = fmt.Errorf("simnet: panic: host %s: close: %v", h.name, p)
		}
	}()
	if err := h.set.Close(); err != nil {
		return fmt.Errorf("simnet: host %s: close: %w", h.name, err)
	}
	if h.exchange != nil {
		if err := h.exchange.Close(); err != nil {
			return fmt.Errorf("simnet: host %s: close: %w", h.name, err)
		}
	}
	h.pool.Reclaim()
	l := h.pool.Ledger()
	switch err := h.pool.Verify(); {
	case err != nil:
		return fmt.Errorf("simnet: ledger: host %s: %w", h.name, err)
	case l.Held+l.Lent > 0:
		return fmt.Errorf("simnet: ledger: host %s: %d buffers are still held and %d lent: %+v", h.name, l.Held, l.Lent, l)
	case l.Free != l.Total:
		return fmt.Errorf("simnet: ledger: host %s: %d of %d buffers are home: %+v", h.name, l.Free, l.Total, l)
	}
	if s := h.pool.Stats(); s.StaleReleases+s.StaleUses > 0 {
		return fmt.Errorf("simnet: ledger: host %s: %d packets were released and %d used after their release",
			h.name, s.StaleReleases, s.StaleUses)
	}
	return nil
}
