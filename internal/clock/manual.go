package clock

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Manual is a clock that moves only by Advance: the virtual time of tests and simulations. The zero value stands at
// Time 0 and is ready for use; its Now method is a Source. All methods may be called from any goroutine. A Manual must
// not be copied.
type Manual struct{ now atomic.Int64 }

// Now returns the time the clock stands at.
func (m *Manual) Now() Time { return Time(m.now.Load()) }

// Advance moves the clock forward by d and returns the new time; past Never it stays at Never. A negative d panics,
// because no code under test may ever see a monotonic clock go back.
func (m *Manual) Advance(d time.Duration) Time {
	if d < 0 {
		panic(fmt.Sprintf("clock: Advance(%v): a monotonic clock does not go back", d))
	}
	for {
		old := m.now.Load()
		next := Time(old).Add(d)
		if m.now.CompareAndSwap(old, int64(next)) {
			return next
		}
	}
}
