package reactor

import (
	"math/bits"
	"time"
)

// Stats are a loop's statistics since Run began. The time of a turn is added when the next turn begins.
type Stats struct {
	Turns, BusyTurns uint64        // a busy turn is one in which something happened
	Time, Busy       time.Duration // of all turns, and of busy turns
	Slept            time.Duration // of turns that ended in a sleep
	LongestTurn      time.Duration // of those that did not sleep
	LongGaps         uint64        // turns of more than 5 ms without a sleep, after which the rings were emptied before timers fired
	Gaps             Histogram     // times between Polls, sleeps excepted

	Completions    uint64 // given to the handler
	TimersFired    uint64
	Timers         int    // started and not fired yet
	Posted         uint64 // posted functions that have run
	ExternalEvents uint64 // calls of Watch's functions
	Sleeps         uint64

	Panics     uint64 // in the program's code, whether the loop went on or not
	Resets     uint64 // connections that were reset after a panic
	RingErrors uint64 // Polls and Flushes that returned an error; the first one in a row is logged
	Aborted    uint64 // sockets that were open when the loop ended and could not be closed in good order
	Dropped    uint64 // posted functions that did not run, because the loop ended on an error
}

// BusyRatio returns the share of the time that was spent in busy turns, from 0 to 1.
func (s *Stats) BusyRatio() float64 {
	if s.Time == 0 {
		return 0
	}
	return float64(s.Busy) / float64(s.Time)
}

// Histogram counts durations by powers of two: bucket i counts those from 2^(i-1) to 2^i - 1 ns, bucket 0 those of 0.
type Histogram [48]uint64

// add counts a duration. One beyond the last bucket counts in the last.
func (h *Histogram) add(d time.Duration) {
	h[min(bits.Len64(uint64(max(d, 0))), len(h)-1)]++
}

// Count returns how many durations were counted.
func (h *Histogram) Count() uint64 {
	var n uint64
	for _, k := range h {
		n += k
	}
	return n
}

// Quantile returns the quantile q, from 0 to 1, as the upper end of its bucket: at most twice the true value. It is 0 if nothing was counted.
func (h *Histogram) Quantile(q float64) time.Duration {
	n := h.Count()
	if n == 0 {
		return 0
	}
	rank := uint64(min(max(q, 0), 1) * float64(n-1))
	for i, k := range h {
		if rank < k {
			return 1<<i - 1
		}
		rank -= k
	}
	return 1<<(len(h)-1) - 1
}

// Stats returns the loop's statistics as they are now. Loop only; Snapshot is for other goroutines.
func (l *Loop) Stats() Stats {
	s := l.stats
	s.Timers = l.wheel.Len()
	return s
}
