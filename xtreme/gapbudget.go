package xtreme

import "time"

// gapBudget bounds how many gaps the journal gets: on a machine that is busy with other things there are hundreds in a second, which would push
// out drops of some minutes ago. The gaps that are left out are counted in the poller's block all the same.
//
// Gaps of less than longGap have a budget of their own. Both together take half of the journal in the fifteen minutes that samples last.
type gapBudget struct {
	tokens  float64
	at      time.Time // when tokens was right
	leftOut int       // since the last gap that was written
}

const (
	longGap      = time.Millisecond
	gapBurst     = 256
	gapPerSecond = 0.85
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
