package pace_test

import (
	"fmt"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/pace"
)

func TestBucketTrace(t *testing.T) {
	// 1,000 bytes a second, 3,000 at once: a millisecond pays for one byte.
	const ms = clock.Time(time.Millisecond)
	var b pace.Bucket
	require.NoError(t, b.Set(100*ms, pace.Limit{Rate: 1000, Burst: 3000}))
	now := 100 * ms
	for range 3 {
		require.True(t, b.Ready(now, 1000))
		b.Take(now, 1000)
	}
	require.False(t, b.Ready(now, 1))
	require.Equal(t, now+ms, b.Due(1))
	require.Equal(t, now+1000*ms, b.Due(1000))
	require.False(t, b.Ready(now+1000*ms-1, 1000))
	require.True(t, b.Ready(now+1000*ms, 1000))

	// A long pause is worth one burst and not more.
	now += clock.Time(time.Hour)
	b.Take(now, 3000)
	require.Equal(t, now+500*ms, b.Due(500))

	// Longer than the burst: it waits for a full bucket, and what follows waits for the rest.
	require.Equal(t, now+3000*ms, b.Due(5000))
	now += 3000 * ms
	b.Take(now, 5000)
	require.Equal(t, now+2001*ms, b.Due(1))
	require.Equal(t, now+5000*ms, b.Due(3000))
}

func TestNoLimit(t *testing.T) {
	var b pace.Bucket
	for range 1000 {
		require.True(t, b.Ready(0, pace.MaxBytes))
		b.Take(0, pace.MaxBytes)
	}
	require.Zero(t, b.Limit())
}

func TestBounds(t *testing.T) {
	var b pace.Bucket
	good := pace.Limit{Rate: 5, Burst: 7}
	require.NoError(t, b.Set(0, good))
	for _, test := range []struct {
		limit pace.Limit
		names string
	}{
		{pace.Limit{Rate: pace.MaxRate + 1, Burst: 1}, fmt.Sprint(uint64(pace.MaxRate + 1))},
		{pace.Limit{Rate: 1, Burst: pace.MaxBurst + 1}, fmt.Sprint(pace.MaxBurst + 1)},
		{pace.Limit{Rate: 1}, "burst of 0"},
	} {
		require.ErrorContains(t, b.Set(0, test.limit), test.names)
		require.Equal(t, good, b.Limit(), "nothing is half applied")
	}
	// The extremes do not overflow.
	for _, l := range []pace.Limit{{Rate: 1, Burst: pace.MaxBurst}, {Rate: pace.MaxRate, Burst: 1},
		{Rate: pace.MaxRate, Burst: pace.MaxBurst}} {
		require.NoError(t, b.Set(1, l))
		for range 8 {
			at := max(b.Due(65535), 1)
			require.Less(t, at, clock.Time(1<<62))
			b.Take(at, 65535)
			require.Greater(t, b.Due(pace.MaxBurst), at)
		}
	}
}

// What was taken is owed under a new limit too: changing the rate over and over gives nobody a second burst.
func TestSetKeepsTheDebt(t *testing.T) {
	var b pace.Bucket
	require.NoError(t, b.Set(0, pace.Limit{Rate: 1000, Burst: 1000}))
	b.Take(0, 1000)
	require.NoError(t, b.Set(0, pace.Limit{Rate: 2000, Burst: 1000}))
	require.Equal(t, clock.Time(500*time.Millisecond), b.Due(1000))
	for range 100 {
		require.NoError(t, b.Set(0, pace.Limit{Rate: 1000, Burst: 1000}))
		require.NoError(t, b.Set(0, pace.Limit{Rate: 3, Burst: 1000}))
	}
	require.GreaterOrEqual(t, b.Due(1), clock.Time(300*time.Millisecond))
	require.False(t, b.Ready(0, 1))
	// Without a limit everything may leave; what was owed before is owed again, less what the old rate has paid meanwhile.
	limit, owed := b.Limit(), b.Due(1000)
	for range 3 {
		require.NoError(t, b.Set(0, pace.Limit{}))
		require.True(t, b.Ready(0, 1))
		b.Take(0, 1<<20)
		require.NoError(t, b.Set(0, pace.Limit{}))
		require.NoError(t, b.Set(0, limit))
		require.GreaterOrEqual(t, b.Due(1000), owed)
	}
	require.NoError(t, b.Set(0, pace.Limit{Rate: 1000, Burst: 1000}))
	full := b.Due(1000)
	require.NoError(t, b.Set(0, pace.Limit{}))
	require.NoError(t, b.Set(full, limit))
	require.True(t, b.Ready(full, 1000), "paid")
}

// sent is one piece of a run.
type sent struct {
	at clock.Time
	n  uint64
}

// run is a sender with pieces of random sizes that looks at the clock at random moments, and now and then has nothing to send.
func run(t *testing.T, r *rand.Rand, l pace.Limit, largest int, pauses bool) []sent {
	var b pace.Bucket
	now := clock.Time(r.Int64N(1 << 40))
	require.NoError(t, b.Set(now, l))
	var all []sent
	for len(all) < 400 {
		n := 1 + r.IntN(largest)
		if pauses && r.IntN(20) == 0 {
			now += clock.Time(r.Int64N(int64(time.Second)))
		}
		if !b.Ready(now, n) {
			now = b.Due(n)
			require.True(t, b.Ready(now, n), "at the time it gave itself")
			require.False(t, b.Ready(now-1, n))
			if r.IntN(4) == 0 {
				now += clock.Time(r.Int64N(int64(time.Millisecond))) // the owner came late
			}
		}
		b.Take(now, n)
		all = append(all, sent{now, uint64(n)})
	}
	return all
}

func limits(r *rand.Rand) pace.Limit {
	return pace.Limit{Rate: 1 + r.Uint64N(uint64(1)<<(1+r.IntN(40))), Burst: 1 + r.Uint64N(uint64(1)<<(1+r.IntN(24)))}
}

// Over every stretch between two pieces: no more than rate × time + burst, in exact arithmetic.
func TestNeverMoreThanTheLimit(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := limits(r)
		all := run(t, r, l, int(min(l.Burst, 65535)), true)
		for i := range all {
			bytes := uint64(0)
			for _, p := range all[i:] {
				bytes += p.n
				// bytes × second ≤ rate × time + burst × second
				high, low := bits.Mul64(l.Rate, uint64(p.at-all[i].at))
				_, carry := bits.Add64(low, l.Burst*1e9, 0)
				if most := low + l.Burst*1e9; high+carry == 0 && bytes*1e9 > most {
					t.Fatalf("seed %d, %+v: %d bytes within %v", seed, l, bytes, time.Duration(p.at-all[i].at))
				}
			}
		}
	}
}

// A sender that always has something gets the whole of its rate, also where the rate divides no nanosecond.
func TestLongRunAverage(t *testing.T) {
	for _, rate := range []uint64{1, 3, 7, 999_983, 125_000, 1_250_000, 12_500_000, 1_234_567_891} {
		var b pace.Bucket
		require.NoError(t, b.Set(0, pace.Limit{Rate: rate, Burst: 1500}))
		now, bytes := clock.Time(0), uint64(0)
		for i := range 30_000 {
			n := 1 + i%1500
			now = max(now, b.Due(n))
			b.Take(now, n)
			bytes += uint64(n)
		}
		// Up to the burst it began with, and one nanosecond of rounding.
		paid := new(big.Int).Mul(new(big.Int).SetUint64(rate), big.NewInt(int64(now)))
		owed := new(big.Int).Mul(new(big.Int).SetUint64(bytes-1500), big.NewInt(1e9))
		over := new(big.Int).Sub(paid, owed)
		require.LessOrEqual(t, over.Sign(), 1)
		slack := new(big.Int).Mul(new(big.Int).SetUint64(rate), big.NewInt(3))
		slack.Add(slack, big.NewInt(1500*1e9))
		require.LessOrEqual(t, new(big.Int).Abs(over).Cmp(slack), 0, "rate %d: %v bytes·ns off after %v", rate, over, time.Duration(now))
	}
}

func TestNoAllocation(t *testing.T) {
	var b pace.Bucket
	require.NoError(t, b.Set(0, pace.Limit{Rate: 1000, Burst: 10}))
	now := clock.Time(0)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		now = b.Due(7)
		if b.Ready(now, 7) {
			b.Take(now, 7)
		}
	}))
}

func BenchmarkTake(b *testing.B) {
	var x pace.Bucket
	require.NoError(b, x.Set(0, pace.Limit{Rate: 12_500_000, Burst: 15_000}))
	now := clock.Time(0)
	for b.Loop() {
		if !x.Ready(now, 1000) {
			now = x.Due(1000)
		}
		x.Take(now, 1000)
	}
}
