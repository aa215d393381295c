package xtreme

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Gaps without end leave half of the journal's 4,096 events to others for fifteen minutes, and those that are left out are counted.
func TestGapBudget(t *testing.T) {
	const journal, minutes, perSecond = 4096, 15, 200
	begin := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	var b gapBudget
	written, leftOut := 0, 0
	for i := range minutes * 60 * perSecond {
		n, ok := b.allows(begin.Add(time.Duration(i) * time.Second / perSecond))
		if !ok {
			require.Zero(t, n)
			continue
		}
		written++
		leftOut += n
	}
	require.LessOrEqual(t, written, journal/2/len(gapBudgets{}))
	require.Greater(t, written, gapBurst)
	require.Equal(t, minutes*60*perSecond, written+leftOut+b.leftOut)
	// Long gaps have a budget of their own.
	var all gapBudgets
	for range 10 * gapBurst {
		all[gapClass(5*time.Millisecond)].allows(begin)
	}
	for _, d := range []time.Duration{100 * time.Microsecond, 10 * time.Millisecond, time.Second} {
		_, ok := all[gapClass(d)].allows(begin)
		require.True(t, ok, d)
	}
	// A quiet machine has all of them.
	b = gapBudget{}
	for i := range 1000 {
		_, ok := b.allows(begin.Add(time.Duration(i) * 3 * time.Second))
		require.True(t, ok)
	}
}
