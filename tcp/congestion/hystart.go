package congestion

import "github.com/socketxtreme/socketxtreme/internal/clock"

// HyStart is HyStart++ (RFC 9406): the first slow start ends before packets are lost, when the least round trip of a round is longer than that
// of the round before. A round ends when what had been sent at its beginning is acknowledged.
//
//	slow start ── round trip has grown ──► conservative slow start ── five rounds ──► congestion avoidance
//	     ▲                                      │
//	     └───────── it was shorter again ───────┘
type HyStart struct {
	end           uint32 // sequence number that ends the round
	current, last uint32 // least round trip of this round and of the one before, microseconds; 0: none
	baseline      uint32 // that of the round in which the conservative slow start began; 0: it did not
	samples       uint8  // of this round
	rounds        uint8  // of the conservative slow start
	started       bool
}

// The constants of RFC 9406 section 4.3.
const (
	hystartSamples  = 8
	hystartRounds   = 5
	hystartDivisor  = 4 // of growth in the conservative slow start
	hystartSegments = 8 // that one acknowledgement lets the window grow by at most: L without pacing
	minRTTThreshold = 4 * clock.Millisecond
	maxRTTThreshold = 16 * clock.Millisecond
)

// acked is RFC 9406 section 4.2 for one acknowledgement: it begins a round when the last one's data is acknowledged, and compares the least
// round trips of the two once there are eight samples. done: slow start is over.
func (h *HyStart) acked(a Ack) (done bool) {
	if !h.started || int32(a.Acked-h.end) >= 0 {
		if h.baseline != 0 && h.started {
			if h.rounds++; h.rounds >= hystartRounds {
				return true
			}
		}
		h.last, h.current, h.samples, h.end, h.started = h.current, 0, 0, a.Next, true
	}
	if a.Sample <= 0 {
		return false
	}
	rtt := uint32(min(max(int64(a.Sample)/1000, 1), 1<<30))
	if h.current == 0 || rtt < h.current {
		h.current = rtt
	}
	if h.samples = min(h.samples+1, hystartSamples); h.samples < hystartSamples {
		return false
	}
	switch threshold := uint32(min(max(clock.Duration(h.last)*clock.Microsecond/8, minRTTThreshold), maxRTTThreshold) / clock.Microsecond); {
	case h.baseline != 0:
		if h.current < h.baseline {
			h.baseline = 0 // it was no queue
		}
	case h.last != 0 && h.current >= h.last+threshold:
		h.baseline, h.rounds = h.current, 0
	}
	return false
}

// growth is what the window may grow by for n bytes.
func (h *HyStart) growth(n, mss int) int {
	n = min(n, hystartSegments*mss)
	if h.baseline != 0 {
		n /= hystartDivisor
	}
	return n
}
