package clock

import "time"

// HasTicks reports whether the processor has a counter that Ticks reads.
const HasTicks = gapTicks != 0

// Ticks reads the processor's counter, some 7 ns, where Now takes 40 ns. 0 where there is none.
func Ticks() uint64 { return ticks() }

var firstTicks = ticks()

// TicksIn is how many ticks there are in d, by how the counter has moved since the process began: the longer that is ago, the more exact. 0
// where there is no counter.
func TicksIn(d time.Duration) uint64 {
	if !HasTicks {
		return 0
	}
	for {
		if t, past := ticks()-firstTicks, time.Since(base); past > 200*time.Microsecond {
			return uint64(float64(t) / float64(past) * float64(d))
		}
	}
}
