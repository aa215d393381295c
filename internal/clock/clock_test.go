package clock

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNowMovesForwardOnly(t *testing.T) {
	require.Positive(t, Now(), "zero may mean none")
	last := Now()
	for range 10_000 {
		now := Now()
		require.False(t, now.Before(last))
		last = now
	}
	before := Now()
	time.Sleep(5 * time.Millisecond)
	require.GreaterOrEqual(t, Now().Sub(before), 5*time.Millisecond)
	require.True(t, before.Before(Now()))
}

func TestArithmeticSaturates(t *testing.T) {
	for _, test := range []struct {
		t    Time
		d    time.Duration
		want Time
	}{
		{0, 0, 0},
		{100, 20, 120},
		{100, -200, -100},
		{Never - 5, 5, Never},
		{Never - 5, 6, Never},
		{1, math.MaxInt64, Never},
		{Never, -1, Never},
		{Never, math.MinInt64, Never},
		{-2, math.MinInt64, math.MinInt64},
		{0, math.MinInt64, math.MinInt64},
	} {
		require.Equal(t, test.want, test.t.Add(test.d), "%d.Add(%d)", test.t, test.d)
	}
	for _, test := range []struct {
		t, u Time
		want time.Duration
	}{
		{5, 3, 2},
		{3, 5, -2},
		{Never, 3, math.MaxInt64},
		{Never, -3, math.MaxInt64},
		{Never, Never, 0},
		{3, Never, 3 - math.MaxInt64},
		{-3, Never, math.MinInt64},
		{math.MaxInt64 - 1, -2, math.MaxInt64},
	} {
		require.Equal(t, test.want, test.t.Sub(test.u), "%d.Sub(%d)", test.t, test.u)
	}
	require.True(t, Time(1).Before(2))
	require.False(t, Time(2).Before(2))
	require.True(t, Now().Before(Never))
}

func TestManualMovesOnlyWhenTold(t *testing.T) {
	var m Manual
	source := Source(m.Now)
	require.Zero(t, source())
	require.Equal(t, Time(time.Hour), m.Advance(time.Hour))
	require.Equal(t, Time(time.Hour), source())
	m.Advance(0)
	require.Equal(t, Time(time.Hour), source())
	require.PanicsWithValue(t, "clock: Advance(-1ns): a monotonic clock does not go back", func() { m.Advance(-1) })
	require.Equal(t, Time(time.Hour), source())
	require.Equal(t, Never, m.Advance(math.MaxInt64))
	require.Equal(t, Never, m.Advance(1))
}

func TestManualFromManyGoroutines(t *testing.T) {
	var m Manual
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				m.Advance(1)
			}
		})
	}
	all.Wait()
	require.Equal(t, Time(8000), m.Now())
}

func TestNothingAllocates(t *testing.T) {
	var m Manual
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		m.Advance(Now().Add(time.Second).Sub(Now()))
	}))
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}

// A gap becomes long by itself, and within what is said of it; right after Begin it is not, unless the test was held up, so often.
func TestGap(t *testing.T) {
	var g Gap
	require.True(t, g.Long(), "a Gap that was never begun")
	short := 0
	for range 1000 {
		g.Begin()
		if !g.Long() {
			short++
		}
	}
	require.Greater(t, short, 900)
	for range 20 {
		g.Begin()
		time.Sleep(time.Millisecond)
		require.True(t, g.Long())
	}
}

func BenchmarkGap(b *testing.B) {
	var g Gap
	n := 0
	for b.Loop() {
		if g.Long() {
			g.Begin()
			n++
		}
	}
	_ = n
}
