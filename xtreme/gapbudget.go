package xtreme

import "time"

// gapBudgets bound how many gaps the journal gets: on a machine that is busy with other things there are hundreds in a second, which would push
// out drops of some minutes ago. The gaps that are left out are counted in the poller's block all the same.
//
// Gaps below 1 ms, 10 ms, 100 ms and longer ones have a budget each: short ones never take the place of a long one. All together take half of
// the journal in the fifteen minutes that samples last.
type gapBudgets [len(gapClasses) + 1]gapBudget

// gapClasses are the upper limits of the lengths that have a budget of their own; the last one has none.
var gapClasses = [...]time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond}

// gapClass is the index of the budget for gaps of a length.
func gapClass(length time.Duration) int {
	i := 0
	for i < len(gapClasses) && length >= gapClasses[i] {
		i++
	}
	return i
}

// gapBudget is a bucket of tokens: one for each gap that is written.
type gapBudget struct {
	tokens  float64
	at      time.Time // when tokens was right
	leftOut int       // since the last gap that was written: for want of tokens, or of room in the queue (gapQueue)
}

const (
	gapBurst     = 128
	gapPerSecond = 0.42
)

// allows reports whether a gap that ended at a time goes into the journal, and how many did not since the last one that went.
func (b *gapBudget) allows(end time.Time) (leftOut int, ok bool) {
	if b.at.IsZero() {
		b.tokens, b.at = gapBurst, end
	}
	if past := end.Sub(b.at); past > 0 {
		b.tokens, b.at = min(gapBurst, b.tokens+past.Seconds()*gapPerSecond), end
	}
	if b.tokens < 1 {
		b.leftOut++
		return 0, false
	}
	b.tokens--
	leftOut, b.leftOut = b.leftOut, 0
	return leftOut, true
}
