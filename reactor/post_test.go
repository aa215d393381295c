package reactor

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

func TestPostsFromManyGoroutines(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, rest := range []Rest{Spin, Adaptive, Wait} {
			const senders, each = 8, 2000
			r := launch(t, kind, nothing, Config{Rest: rest, RxPoll: 10, PostBudget: 50}, nil)
			next := make([]int, senders) // the loop's
			wrong := 0
			var all sync.WaitGroup
			for s := range senders {
				all.Go(func() {
					for i := range each {
						if r.Post(func() {
							if next[s] != i || r.self.Load() != sys.Goroutine() {
								wrong++
							}
							next[s] = i + 1
						}) != nil {
							return
						}
					}
				})
			}
			all.Wait()
			r.do(t, func() {
				require.Zero(t, wrong, "posts of one goroutine run in order, on the loop")
				for _, n := range next {
					require.Equal(t, each, n)
				}
			})
			require.EqualValues(t, senders*each+1, r.snapshot(t).Posted)
			require.NoError(t, r.stop(t))
		}
	})
}

func TestPostBudget(t *testing.T) {
	l := turnByHand(t, conf.RingEpoll, nothing, Config{Rest: Wait, PostBudget: 3})
	n := 0
	for range 7 {
		require.NoError(t, l.Post(func() { n++ }))
	}
	require.NoError(t, l.Post(func() {
		require.NoError(t, l.Post(func() { n += 100 }))
	}))
	for _, want := range []int{3, 6, 7, 107} {
		l.turns(t, 1, time.Microsecond)
		require.Equal(t, want, n)
	}
}

func TestWhatWasAcceptedRuns(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		var ran, accepted atomic.Int64
		r := launch(t, kind, nothing, Config{Rest: Wait, Grace: 50 * time.Millisecond}, nil)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for r.Post(func() { ran.Add(1) }) == nil {
					accepted.Add(1)
				}
			})
		}
		time.Sleep(5 * time.Millisecond)
		require.NoError(t, r.stop(t))
		all.Wait()
		require.NotZero(t, accepted.Load())
		require.Equal(t, accepted.Load(), ran.Load())
		require.Zero(t, r.snapshot(t).Dropped)
	})
}

func TestSnapshot(t *testing.T) {
	r := launch(t, conf.RingEpoll, nothing, Config{Rest: Wait}, nil)
	before := r.snapshot(t)
	time.Sleep(20 * time.Millisecond)
	after := r.snapshot(t)
	require.Greater(t, after.Turns, before.Turns)
	require.GreaterOrEqual(t, after.Time-before.Time, 15*time.Millisecond)
	require.Greater(t, after.Slept, before.Slept)
	r.do(t, func() {
		s, err := r.Snapshot(context.Background())
		require.NoError(t, err)
		require.Equal(t, r.Stats(), s, "on the loop it does not wait for itself")
	})
	require.NoError(t, r.stop(t))
	require.GreaterOrEqual(t, r.snapshot(t).Turns, after.Turns, "after the end: the final state")

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p, err := newEngine(t, conf.RingEpoll).NewPoller("never run", xtreme.PollerConfig{})
	require.NoError(t, err)
	l, err := New(p, nothing, Config{})
	require.NoError(t, err)
	_, err = l.Snapshot(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, p.Close())
}
