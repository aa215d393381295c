package ring

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// loopOf is a loop whose counter has a tick each nanosecond, and what it reports.
func loopOf() (l *Loop, gaps *[]Gap) {
	gaps = &[]Gap{}
	l = &Loop{page: &LoopPage{}, gap: func(g Gap) { *gaps = append(*gaps, g) }}
	l.calibrate(uint64(gapLeast))
	l.last = 1
	return l, gaps
}

// read is a reading that many polls, of one completion each, after the last one, d each on the average.
func (l *Loop) read(polls int, d time.Duration, n int) {
	l.unread, l.delivered = uint64(polls-1), uint64(polls)
	past := time.Duration(polls) * d
	now := l.last + uint64(past)
	if uint64(past) >= l.rare {
		l.longPast(now, 0, n)
	} else {
		l.adapt(uint64(past))
	}
	l.last, l.delivered, l.unread = now, 0, 0
}

// quickly is what polls that follow each other quickly lead to: most leave the counter unread.
func (l *Loop) quickly() {
	for range quickRow + 1 {
		l.read(1, time.Microsecond, 1)
	}
}

func TestQuickPollsLeaveTheCounterUnread(t *testing.T) {
	l, _ := loopOf()
	require.Zero(t, l.leave, "at first it is not known how quick they are")
	l.quickly()
	require.EqualValues(t, unreadMost, l.leave)
	l.read(8, 3*time.Microsecond, 1)
	require.EqualValues(t, unreadMost, l.leave)
	l.read(8, 4*time.Microsecond, 1)
	require.Zero(t, l.leave)
	for range quickRow {
		l.read(1, time.Microsecond, 1)
		require.Zero(t, l.leave)
	}
	l.read(1, time.Microsecond, 1)
	require.EqualValues(t, unreadMost, l.leave)
	l.readNext()
	require.Zero(t, l.leave)
	l.read(1, time.Microsecond, 1)
	require.EqualValues(t, unreadMost, l.leave)
}

// What a time between two readings was is known from the polls that follow, one by one.
func TestSuspectedGaps(t *testing.T) {
	const us = time.Microsecond
	for _, c := range []struct {
		name   string
		polls  int // between two readings
		each   time.Duration
		n      int             // completions of the last of these polls
		then   []time.Duration // polls of one completion
		want   []time.Duration // gaps
		settle bool            // the loop sleeps then
	}{
		{name: "handlers that became slow", polls: 8, each: 40 * us, n: 1, then: []time.Duration{40 * us, 30 * us, 50 * us, 40 * us, 40 * us, 40 * us, 40 * us, 40 * us}},
		{name: "one of quick polls", polls: 8, each: 40 * us, n: 1, then: []time.Duration{us, us, us, us, us, us, us, us}, want: []time.Duration{313 * us}},
		{name: "not sure before as many are handled", polls: 8, each: 40 * us, n: 1, then: []time.Duration{us, us, us}},
		{name: "one of quick polls, then a sleep", polls: 8, each: 40 * us, n: 1, then: []time.Duration{us, us}, settle: true, want: []time.Duration{313 * us}},
		{name: "then nothing", polls: 3, each: 40 * us, n: 0, want: []time.Duration{120 * us}},
		{name: "one, and slow ones then", polls: 2, each: 100 * us, n: 1, then: []time.Duration{60 * us, 60 * us}, want: []time.Duration{140 * us}},
		{name: "each is one", polls: 2, each: 150 * us, n: 1, then: []time.Duration{150 * us}, want: []time.Duration{150 * us, 150 * us}},
		{name: "not less than the mean", polls: 2, each: 150 * us, n: 1, then: []time.Duration{900 * us}, want: []time.Duration{150 * us, 900 * us}},
		{name: "no time between two readings", polls: 1, each: 150 * us, n: 1, want: []time.Duration{150 * us}},
	} {
		l, gaps := loopOf()
		l.quickly()
		l.read(c.polls, c.each, c.n)
		if c.polls > 1 {
			require.Zero(t, l.leave, c.name)
		}
		var since time.Duration
		for _, d := range c.then {
			since += d
			l.read(1, d, 1)
		}
		if c.settle {
			l.settle(l.last, 0)
		}
		var got []time.Duration
		for _, g := range *gaps {
			require.Equal(t, WorkHandler, g.Work, c.name)
			require.Equal(t, g.Length, g.Spent, c.name)
			got = append(got, g.Length)
		}
		require.Equal(t, c.want, got, c.name)
		require.EqualValues(t, len(got), l.page.Gaps, c.name)
		if len(got) > 0 && len(c.then) == 8 {
			require.Equal(t, since, (*gaps)[0].Ago, c.name)
		}
	}
}

// The next gap is measured from a reading on after a sleep, and marks are those of the last time between two polls.
func TestSleepsAndMarksHaveTheNextPollRead(t *testing.T) {
	l, gaps := loopOf()
	l.quickly()
	l.begin(0)
	require.Zero(t, l.leave)
	require.Zero(t, l.last)
	l.longPast(uint64(time.Hour), 0, 1)
	require.Empty(t, *gaps, "the time of the sleep is no gap")

	l, _ = loopOf()
	l.quickly()
	l.Mark(WorkPosted)
	require.Zero(t, l.leave)
}

// Without a counter nothing is a gap.
func TestNoCounterNoGap(t *testing.T) {
	l, gaps := loopOf()
	l.calibrate(0)
	l.read(8, time.Hour, 1)
	l.read(1, time.Hour, 1)
	require.Empty(t, *gaps)
}
