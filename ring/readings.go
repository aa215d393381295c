package ring

import (
	"math"
	"time"
)

// readings decides which polls read the processor's counter, which takes some 7 ns, so that a busy loop seldom pays for it, and gaps stay exact:
//
//	polls                                             the counter is read
//	a Poll that finds nothing, or returns 8 and more  always
//	others, in a row of less than 3 µs each           by every eighth
//	others                                            by each
//
// The time between two readings with polls between them is a gap only if one of the times between those polls was one. That shows when their
// handlers are known to be quick: the next polls read the counter each, until as many completions are handled as in that time, and what
// these take is taken off (suspicion). If there are none, nothing is known, and the whole time is one gap.
//
//	          7 polls that read nothing
//	reading ─┬─┬─┬─┬─┬─┬─┬─ reading ─── reading ─── reading ─── ...
//	         └── 320 µs: suspected ─┘ └─ 40 µs ───┘└─ 41 µs ───┘       each of them took some 40 µs: no gap
//	         └── 320 µs: suspected ─┘ └─ 1 µs ────┘└─ 1 µs ────┘       one of them took some 313 µs
type readings struct {
	last      uint64 // ticks when the counter was read; 0: the loop begins, or has slept
	rare      uint64 // ticks since then from which on longPast is called: threshold, or 0 while a gap is suspected
	threshold uint64 // ticks of gapLeast; 0: the processor has no counter
	unread    uint64 // polls since then
	leave     uint64 // how many polls may leave the counter unread in a row: 0 or unreadMost
	inRow     uint64 // readings in a row that found the polls quick

	suspected suspicion
}

// suspicion is a time between two readings, with polls between them, of which one may have been followed by a gap.
type suspicion struct {
	gap    Gap    // Length is 0: there is none
	unread uint64 // polls in that time
	end    uint64 // ticks

	ticks     uint64 // what the handlers of polls since then have taken
	delivered uint64 // of how many completions
}

// When polls read the counter.
const (
	unreadMost = 7  // every eighth reads the counter
	fullPoll   = 8  // a Poll that returns as many reads it
	quickRow   = 8  // as many readings in a row must have found the polls quick
	quickShare = 32 // a Poll is quick that comes within this part of gapLeast
)

// calibrate sets how many ticks gapLeast has; 0: the processor has no counter.
func (r *readings) calibrate(threshold uint64) {
	r.threshold = threshold
	if !r.isSuspecting() {
		r.endSuspicion()
	}
}

func (r *readings) isSuspecting() bool { return r.suspected.gap.Length != 0 }

// endSuspicion goes back to the time without a suspicion.
func (r *readings) endSuspicion() {
	r.suspected.gap.Length = 0
	r.rare = r.threshold
	if r.threshold == 0 {
		r.rare = math.MaxUint64
	}
}

// adapt is told after each reading how much time has passed since the last one, in which completions were handled.
func (r *readings) adapt(past uint64) {
	switch {
	case past*quickShare >= r.threshold*(r.unread+1):
		r.inRow, r.leave = 0, 0
	case r.inRow < quickRow:
		r.inRow++
	default:
		r.leave = unreadMost
	}
}

// readNext has the next Poll read the counter.
func (r *readings) readNext() { r.leave = 0 }

// suspect begins a suspicion: g is the time from the reading before this one, now.
func (r *readings) suspect(g Gap, now uint64) {
	r.suspected = suspicion{gap: g, unread: r.unread, end: now}
	r.inRow, r.leave, r.rare = 0, 0, 0
}

// add adds the time since the last reading, in which delivered completions were handled, to what is known of a suspicion. It reports whether
// that is enough.
func (s *suspicion) add(ticks, delivered uint64) bool {
	s.ticks += ticks
	s.delivered += delivered
	return delivered == 0 || s.delivered >= s.gap.Delivered
}

// judge returns the gap without what the other polls' handlers took. took is s.ticks as time.
func (s *suspicion) judge(took time.Duration) Gap {
	g := s.gap
	if s.delivered == 0 {
		return g
	}
	share := float64(s.unread) / float64(s.unread+1) // of the polls, those that another one's gap is not behind
	others := min(float64(took)*float64(g.Delivered)/float64(s.delivered), float64(g.Length)) * share
	g.Length -= time.Duration(others)
	if g.Work == WorkHandler {
		g.Spent = max(g.Spent-time.Duration(others), 0)
	}
	g.Spent = min(g.Spent, g.Length)
	return g
}
