package reactor

import (
	"math/bits"
	"time"
)

// Stats is what a loop has done since Run began. Times are counted at the beginning of each turn, from the turn before.
type Stats struct {
	Turns, BusyTurns uint64        // a busy turn did something
	Time, Busy       time.Duration // all of it, and that of busy turns
	Slept            time.Duration // that of turns which ended in a sleep
	LongestTurn      time.Duration // without sleeping
	LongGaps         uint64        // turns of more than 5 ms, after which the rings were emptied before timers fired
	Gaps             Histogram     // between Polls, sleeps apart

	Completions    uint64
	TimersFired    uint64
	Timers         int // running now
	Posted         uint64
	ExternalEvents uint64
	Sleeps         uint64

	Panics     uint64 // contained or not
	Resets     uint64 // connections reset for a panic
	RingErrors uint64 // errors of Poll; the first of a row is logged
	Aborted    uint64 // sockets that the end of the loop found open and could not close in peace
	Dropped    uint64 // posted functions that were not run, because the loop ended on an error
}

// BusyRatio is the part of the time that was spent in busy turns, 0 to 1.
func (s *Stats) BusyRatio() float64 {
	if s.Time == 0 {
		return 0
	}
	return float64(s.Busy) / float64(s.Time)
}

// Histogram counts durations by their order of magnitude: bucket i counts those of 2^(i-1) to 2^i - 1 ns, bucket 0
// those of 0.
type Histogram [48]uint64

func (h *Histogram) add(d time.Duration) {
	h[min(bits.Len64(uint64(max(d, 0))), len(h)-1)]++
}

// Count is the number of durations counted.
func (h *Histogram) Count() uint64 {
	var n uint64
	for _, k := range h {
		n += k
	}
	return n
}

// Quantile is the upper end of the bucket that holds quantile q, 0 to 1: at most twice the true value. 0 when nothing
// was counted.
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

// Stats is the loop's statistics as of now. Loop only; see Snapshot.
func (l *Loop) Stats() Stats {
	s := l.stats
	s.Timers = l.wheel.Len()
	return s
}
