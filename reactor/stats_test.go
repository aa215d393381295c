package reactor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
)

func TestHistogram(t *testing.T) {
	var h Histogram
	require.Zero(t, h.Quantile(0.5))
	h.add(-1)
	require.EqualValues(t, 1, h[0])
	for range 98 {
		h.add(100) // 64 to 127
	}
	h.add(1 << 60) // longer than the last bucket
	require.EqualValues(t, 100, h.Count())
	require.Equal(t, time.Duration(0), h.Quantile(0))
	require.Equal(t, time.Duration(127), h.Quantile(0.5))
	require.Equal(t, time.Duration(127), h.Quantile(0.98))
	require.Equal(t, time.Duration(1<<47-1), h.Quantile(1))
	require.Equal(t, h.Quantile(1), h.Quantile(7))
	require.Equal(t, h.Quantile(0), h.Quantile(-7))
	for d := time.Duration(1); d < 1<<46; d = d*3 + 1 {
		var h Histogram
		h.add(d)
		q := h.Quantile(0.5)
		require.GreaterOrEqual(t, q, d)
		require.Less(t, q, 2*d)
	}
}

func TestStatsAddUp(t *testing.T) {
	l := turnByHand(t, conf.RingEpoll, nothing, Config{RxPoll: 1})
	l.longestSleep = time.Microsecond
	l.turns(t, 1, time.Microsecond) // empty
	require.NoError(t, l.Post(func() { l.After(time.Hour, func() {}) }))
	l.turns(t, 1, time.Microsecond)      // busy
	l.turns(t, 1, 3*time.Millisecond)    // ends the busy turn
	l.turns(t, 1, 6*time.Millisecond)    // ends a long empty one, and sleeps
	l.turns(t, 1, 100*time.Millisecond)  // ends the sleep
	l.turns(t, 1, 1000*time.Millisecond) // and another
	s := l.Stats()
	require.EqualValues(t, 6, s.Turns)
	require.EqualValues(t, 1, s.BusyTurns)
	require.EqualValues(t, 1, s.Posted)
	require.Equal(t, 1, s.Timers)
	require.Equal(t, 3*time.Millisecond, s.Busy)
	require.Equal(t, 1109*time.Millisecond+2*time.Microsecond, s.Time)
	require.Equal(t, 1100*time.Millisecond, s.Slept)
	require.EqualValues(t, 3, s.Sleeps)
	require.Equal(t, 6*time.Millisecond, s.LongestTurn)
	require.EqualValues(t, 1, s.LongGaps)
	require.EqualValues(t, 4, s.Gaps.Count(), "sleeps apart")
	require.InDelta(t, 3.0/1109, s.BusyRatio(), 1e-4)
	var none Stats
	require.Zero(t, none.BusyRatio())
}
