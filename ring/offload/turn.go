package offload

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/udp"
)

// turnClock counts the turns of a driver, and has the time as some of them have read it.
type turnClock struct {
	now       clock.Time // as read last; some turns old at most
	number    uint64     // of the turn
	idle      int        // turns in a row without a frame
	isRunning bool       // Reap is running
	isReal    bool       // Config.Clock was not given: gap counts. A virtual clock stands still meanwhile
	isLong    bool       // the turns since the clock was read took so long that this one reads it
	gap       clock.Gap  // since the clock was read in Reap
	source    clock.Source
	checkedAt clock.Time // when the links were last checked
	tai       int64      // nanoseconds that CLOCK_TAI is ahead of the Unix clock
}

// clockMask: the clock is read on every 16th turn (some 40 ns), after a sleep, and when the turns since the last reading took long
// (clock.Gap).
const clockMask = 15

// gapMask: the gap is looked at on every 4th turn (8 to 25 ns on virtual machines), and on every turn while they take long.
const gapMask = 3

// checkEvery is how often the links are asked whether they live; with the time that they themselves take to find out a loss is known within a
// second.
const checkEvery = clock.Time(500 * time.Millisecond)

// needsGap reports whether this turn looks at the gap. Where it does not isLong is false.
func (t *turnClock) needsGap() bool { return t.isReal && (t.isLong || t.number&gapMask == 0) }

// hasClockTurn reports whether the turn is one of those that read the clock because of their number.
func (t *turnClock) hasClockTurn() bool { return t.number&clockMask == 0 }

// read reads the clock.
func (t *turnClock) read() { t.now = t.source() }

// startGap begins the time after which a turn reads the clock whatever its number is. The caller has just read it.
func (t *turnClock) startGap() {
	if t.isReal {
		t.gap.Begin()
	}
}

// isFresh reports whether the clock was read so shortly ago that the turns since then were not long.
func (t *turnClock) isFresh() bool { return t.isReal && !t.gap.Long() }

// readSoon has the next turn read the clock.
func (t *turnClock) readSoon() { t.number |= clockMask }

// needsCheck reports whether the links were not checked for checkEvery.
func (t *turnClock) needsCheck() bool { return t.now-t.checkedAt >= checkEvery }

// readTAI finds out how far the kernel's CLOCK_TAI is ahead of its Unix clock: 37 s where a time service has told it so, else 0.
func (t *turnClock) readTAI() {
	var tai, unixTime unix.Timespec
	if unix.ClockGettime(unix.CLOCK_TAI, &tai) == nil && unix.ClockGettime(unix.CLOCK_REALTIME, &unixTime) == nil {
		t.tai = int64(time.Duration(tai.Nano() - unixTime.Nano()).Round(time.Second))
	}
}

// stampOf is the time that the link's XDP program took, converted from TAI; zero if it took none.
func (t *turnClock) stampOf(x *udp.Delivery) ring.Stamp {
	switch {
	case x.Nanos == 0:
		return ring.Stamp{}
	case x.Clock == link.ClockKernel:
		return ring.Stamp{Nanos: x.Nanos - t.tai, Source: ring.StampLink}
	}
	return ring.Stamp{}
}
