package ring

import (
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// Loop is what the rings that one goroutine polls have together: when it polled last, and what is counted of that. Owner only.
//
// A gap is a long time between two polls without a sleep. The processor's counter is read by each Poll that finds nothing, by each one that
// returns eight completions or more, and else by every eighth: what a gap costs a busy loop shows in the burst that follows it.
type Loop struct {
	page      *LoopPage
	pool      *buffers.Pool
	total     uint64                // buffers
	last      uint64                // ticks; 0: the loop begins, or has slept
	threshold uint64                // ticks of gapLeast
	gap       func(d time.Duration) // is called for each gap

	measuresSleep bool
	armed         clock.Time // when the first ring was armed that has not been polled since; 0: none, or nothing is measured
}

// LoopPage is what is counted of a loop, in memory that other processes may read: 64-bit words alone.
type LoopPage struct {
	Gaps, GapTime uint64
	GapsBelow     [8]uint64 // by length: see gapLimits
	SleepTime     uint64
	NoBuffer      uint64 // these three are copied by the owner of the loop, some times a second
	Buffers       uint64
	BuffersUsed   uint64
	MeasuresSleep uint64

	Gap             Peak
	BuffersUsedPeak Peak
}

// gapLeast is the shortest time between two polls that is a gap.
const gapLeast = 100 * time.Microsecond

// gapLimits are the upper limits of LoopPage.GapsBelow, but for the last one, which has none.
var gapLimits = [...]time.Duration{200 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2 * time.Millisecond,
	5 * time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond}

// busyPolls: of polls that return few completions every eighth reads the counter.
const busyPolls, fullPoll = 8, 8

// NewLoop makes a loop that counts in page, and calls gap for each gap. With measuresSleep it counts how long Wait sleeps, and the time from Arm
// to the next Poll (VMA_CPU_USAGE_STATS).
func NewLoop(page *LoopPage, pool *buffers.Pool, measuresSleep bool, gap func(d time.Duration)) *Loop {
	layout := pool.Layout()
	l := &Loop{page: page, pool: pool, total: uint64(layout.SmallCount + layout.LargeCount), gap: gap, threshold: clock.TicksIn(gapLeast),
		measuresSleep: measuresSleep}
	page.Buffers = l.total
	if measuresSleep {
		page.MeasuresSleep = 1
	}
	return l
}

// Refresh copies what is counted of the pool, and measures how fast the processor's counter runs once more. Owner only.
func (l *Loop) Refresh() {
	l.page.BuffersUsed, l.page.NoBuffer = l.usedBuffers(), l.pool.Stats().Exhausted
	l.threshold = clock.TicksIn(gapLeast)
}

// usedBuffers are the buffers that are neither free nor with a driver to be filled.
func (l *Loop) usedBuffers() uint64 {
	return l.total - uint64(l.pool.Available(buffers.Small)+l.pool.Available(buffers.Large))
}

// polled is the end of a Poll.
func (l *Loop) polled(epoch *uint64) {
	now := clock.Ticks()
	past := now - l.last
	if past >= l.threshold && l.last != 0 && l.threshold != 0 && int64(past) > 0 {
		l.noteGap(past, *epoch)
		now = clock.Ticks()
	}
	l.last = now
}

func (l *Loop) noteGap(ticks, epoch uint64) {
	d := time.Duration(float64(ticks) / float64(l.threshold) * float64(gapLeast))
	l.page.Gaps++
	l.page.GapTime += uint64(d)
	i := 0
	for i < len(gapLimits) && d >= gapLimits[i] {
		i++
	}
	l.page.GapsBelow[i]++
	l.page.Gap.note(epoch, uint64(d))
	if l.gap != nil {
		l.gap(d)
	}
}
