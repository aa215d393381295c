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
	require.LessOrEqual(t, written, journal/4, "there are two budgets")
	require.Greater(t, written, gapBurst)
	require.Equal(t, minutes*60*perSecond, written+leftOut+b.leftOut)
	// A quiet machine has all of them.
	b = gapBudget{}
	for i := range 1000 {
		_, ok := b.allows(begin.Add(time.Duration(i) * 2 * time.Second))
		require.True(t, ok)
	}
}
