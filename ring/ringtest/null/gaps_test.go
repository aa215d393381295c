package null

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
)

// looped makes a layer whose loop counts in the page that is returned.
func looped(t *testing.T, batch int) (*Layer, *ring.LoopPage) {
	if !clock.HasTicks {
		testnet.Missing(t, "ticks", "a counter of this processor")
	}
	page := &ring.LoopPage{}
	layer, err := NewLayer(batch, func(c *ring.SetConfig) { c.Loop = ring.NewLoop(page, &c.Pool.Pool, false, func(ring.Gap) {}) })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, layer.Close()) })
	return layer, page
}

// turns polls n times, with a handler that takes the time between. It returns between how many polls more than 90 µs passed.
func turns(t *testing.T, layer *Layer, n int, handler time.Duration) (long uint64) {
	last := time.Now()
	for range n {
		_, err := layer.Turn()
		require.NoError(t, err)
		now := time.Now()
		if now.Sub(last) > 90*time.Microsecond {
			long++
		}
		for last = now; time.Since(last) < handler; {
		}
	}
	return long
}

// Handlers of less than 100 µs that follow each other are no gaps, also if no Poll between them finds nothing.
func TestHandlersInARowAreNoGap(t *testing.T) {
	for _, batch := range []int{1, 7} {
		layer, page := looped(t, batch)
		turns(t, layer, 64, 0) // these are so short that not every Poll reads the counter
		long := turns(t, layer, 800, 40*time.Microsecond)
		require.LessOrEqual(t, page.Gaps, long+8, "of 800 handlers that take 40 µs; a fault counts some 100")
	}
}

// A gap between two of many short polls is counted, once, with about its length.
func TestGapBetweenShortPolls(t *testing.T) {
	layer, page := looped(t, 1)
	other := uint64(0)
	for i := range 32 {
		other += turns(t, layer, 1000+i, 0) // it is at another place between two readings each time
		before := page.Gaps
		begin := time.Now()
		for time.Since(begin) < 3*time.Millisecond {
		}
		other += turns(t, layer, 64, 0)
		require.Greater(t, page.Gaps, before)
	}
	require.Less(t, page.Gaps, 32+other+16, "other programs cause some, too")
	require.GreaterOrEqual(t, page.GapTime, uint64(32*2900*time.Microsecond))
}

// A gap behind the first Poll after a sleep is counted as any other, also if that Poll returns completions and those before were quick.
func TestGapAfterASleep(t *testing.T) {
	layer, page := looped(t, 1)
	for i := range 16 {
		turns(t, layer, 100+i, 0)
		ring.EndSleep(layer.ring)
		turns(t, layer, 1, 0)
		before, begin := page.Gaps, time.Now()
		for time.Since(begin) < time.Millisecond {
		}
		turns(t, layer, 32, 0)
		require.Greater(t, page.Gaps, before)
	}
}
