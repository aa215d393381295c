package pacetest_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/pace"
	"github.com/socketxtreme/socketxtreme/internal/pace/pacetest"
)

// sender is a paced socket in virtual time, on a machine that stops it and delays what it sent: now and then, for up to the time stops.
type sender struct {
	random *rand.Rand
	now    int64
	stops  time.Duration
	all    []pacetest.Arrival
}

// stop is what the machine does between any two steps.
func (s *sender) stop() {
	s.now += 1000 + s.random.Int64N(8000)
	if s.stops > 0 && s.random.IntN(300) == 0 {
		s.now += s.random.Int64N(int64(s.stops))
	}
}

// run sends for 300 ms by a bucket of its own, which may be wrong.
func (s *sender) run(r pacetest.Rule, wrong pace.Limit) *pacetest.Notes {
	var b pace.Bucket
	if err := b.Set(clock.Time(s.now), wrong); err != nil {
		panic(err)
	}
	notes := pacetest.NewNotes(r)
	n := 0
	let := func() {
		looked := clock.Time(s.now)
		for range 16 {
			if !b.Ready(looked, r.Size) {
				return
			}
			b.Take(looked, r.Size)
			s.stop()
			s.all = append(s.all, pacetest.Arrival{Number: n, At: s.now})
			n++
			looked = clock.Time(s.now)
		}
	}
	for end := s.now + int64(300*time.Millisecond); s.now < end; {
		begin := s.now
		s.stop()
		let()
		notes.Turn(begin, n)
		s.stop()
		let()
		s.stop()
	}
	for i := range s.all {
		s.all[i].Since = notes.Since(i)
	}
	return notes
}

func TestJudge(t *testing.T) {
	for _, rate := range []uint64{125_000, 1_250_000, 12_500_000} {
		r := pacetest.Rule{Rate: rate, Burst: max(int(rate/100), 3000), Size: 1000, Drift: pacetest.SystemClocks}
		right := pace.Limit{Rate: rate, Burst: uint64(r.Burst)}
		fast, slow, large := right, right, right
		fast.Rate, slow.Rate, large.Burst = rate*11/10, rate*9/10, 2*right.Burst
		for seed := range uint64(20) {
			make := func(stops time.Duration) *sender {
				return &sender{random: rand.New(rand.NewPCG(seed, rate)), now: 1 << 60, stops: stops}
			}
			// Whatever the machine does, who keeps the rule is right.
			for _, stops := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond} {
				s := make(stops)
				notes := s.run(r, right)
				require.NoError(t, r.Check(s.all), "rate %d, seed %d, stops %v", rate, seed, stops)
				require.NoError(t, r.Least(s.all, notes.Stopped), "rate %d, seed %d, stops %v", rate, seed, stops)
				// Who does not is wrong, except where the machine stops it all the time.
				if stops > time.Millisecond {
					continue
				}
				s = make(stops)
				s.run(r, fast)
				require.Error(t, r.Check(s.all), "too fast: rate %d, seed %d, stops %v", rate, seed, stops)
				s = make(stops)
				s.run(r, large)
				require.Error(t, r.Check(s.all), "burst too large: rate %d, seed %d, stops %v", rate, seed, stops)
				s = make(stops)
				if notes = s.run(r, slow); !notes.Disturbed() {
					require.Error(t, r.Least(s.all, notes.Stopped), "too slow: rate %d, seed %d, stops %v", rate, seed, stops)
				}
			}
			s := make(0)
			s.run(r, right)
			require.LessOrEqual(t, r.Windows(s.all), len(s.all)/100)
			s = make(0)
			s.run(r, large)
			require.Greater(t, r.Windows(s.all), len(s.all)/100, "rate %d", rate)
		}
	}
}

// The judge itself: its bounds, and what cannot be.
func TestJudgeBounds(t *testing.T) {
	r := pacetest.Rule{Rate: 1_000_000, Burst: 2000, Size: 1000}
	const ms = int64(time.Millisecond)
	at := func(times ...int64) (all []pacetest.Arrival) {
		for i, x := range times {
			all = append(all, pacetest.Arrival{Number: i, At: x, Since: x})
		}
		return all
	}
	require.NoError(t, r.Check(at(0, 0, ms, 2*ms)))
	require.Error(t, r.Check(at(0, 0, ms, 2*ms-2000)))
	require.Error(t, r.Check(at(0, 0, 0)))
	require.NoError(t, r.Check([]pacetest.Arrival{{0, ms, 0}, {1, ms, 0}, {2, ms, 0}}), "one was late for a millisecond")
	require.Error(t, r.Check([]pacetest.Arrival{{0, 0, 0}, {5, ms, ms}}), "four were lost, and had been sent")
	require.ErrorContains(t, r.Check([]pacetest.Arrival{{1, 0, 0}, {0, ms, ms}}), "after")
	require.ErrorContains(t, r.Check([]pacetest.Arrival{{0, 0, 1}}), "not one clock")
	require.ErrorContains(t, r.Check(nil), "nothing")
	require.ErrorContains(t, r.Least(nil, 0), "nothing")
	require.NoError(t, r.Least(at(0, 0, ms, 2*ms, 3*ms), 0))
	require.Error(t, r.Least(at(0, 0, ms, 2*ms, 8*ms), 0))
	require.NoError(t, r.Least(at(0, 0, ms, 2*ms, 8*ms), 5*time.Millisecond))
	require.Zero(t, r.Windows(at(0, 0, ms, 2*ms)))
	require.Equal(t, 2, r.Windows(at(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)))

	n := pacetest.NewNotes(r)
	for i, left := range []int{2, 3, 3, 5} {
		n.Turn(int64(i)*ms/4, left)
	}
	for number, turn := range []int64{0, 0, 0, 2, 2, 3, 3} {
		require.Equal(t, turn*ms/4, n.Since(number), "datagram %d", number)
	}
	require.Zero(t, n.Times)
	n.Turn(ms+3*ms/4, 6)
	require.Equal(t, 1, n.Times)
	require.True(t, n.Disturbed())
}
