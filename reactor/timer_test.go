package reactor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wheel"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// byHand is a loop in virtual time whose turns the test takes itself.
type byHand struct {
	*Loop
	time clock.Manual
}

func turnByHand(t testing.TB, kind conf.RingKind, h Handler, c Config, change ...func(*conf.Settings)) *byHand {
	t.Helper()
	s := conf.Default()
	s.Ring, s.SmallBuffers, s.LargeBuffers = kind, 1024, 64
	for _, f := range change {
		f(&s)
	}
	e := mustEngine(t, s)
	p, err := e.NewPoller("by hand", xtreme.PollerConfig{})
	require.NoError(t, err)
	l, err := New(p, h, c)
	require.NoError(t, err)
	b := &byHand{Loop: l}
	b.time.Advance(time.Hour)
	l.clock = b.time.Now
	l.now = l.clock()
	l.epochTick = l.now
	l.lastIO = l.now
	l.wheel = wheel.New(l.now, timerTick)
	t.Cleanup(func() {
		l.clock = clock.Now
		l.BeginShutdown()
		require.NoError(t, l.Run(context.Background()))
	})
	return b
}

// turns takes turns, each a step later.
func (b *byHand) turns(t testing.TB, n int, step time.Duration) {
	for range n {
		b.time.Advance(step)
		if err := b.turn(); err != nil {
			require.NoError(t, err)
		}
	}
}

func TestThousandsOfTimersFireInOrderAndNeverEarly(t *testing.T) {
	l := turnByHand(t, conf.RingEpoll, nothing, Config{Rest: Spin, TimerBudget: 100})
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	const n = 5000
	due := make([]time.Duration, n)
	cancelled := map[uint64]bool{}
	var fired []uint64
	start := l.Now()
	timers := make([]Timer, n)
	for i := range n {
		due[i] = time.Duration(random.Int64N(int64(2 * time.Second)))
		timers[i] = l.AfterData(due[i], func(l *Loop, data uint64) {
			since := l.Now().Sub(start)
			require.GreaterOrEqual(t, since, due[data], "seed %d", seed)
			fired = append(fired, data)
		}, uint64(i))
	}
	require.Equal(t, n, l.Stats().Timers)
	for i := 0; i < n; i += 7 {
		cancelled[uint64(i)] = true
		require.True(t, l.Cancel(timers[i]))
		require.False(t, l.Cancel(timers[i]))
	}
	for i := 1; i < n; i += 7 {
		due[i] += 500 * time.Millisecond
		moved, ok := l.Reset(timers[i], due[i])
		require.True(t, ok)
		require.Equal(t, timers[i], moved)
	}
	l.turns(t, 3000, time.Millisecond)
	require.Len(t, fired, n-len(cancelled), "seed %d", seed)
	for i, data := range fired {
		require.False(t, cancelled[data])
		if i > 0 {
			require.GreaterOrEqual(t, due[data]-due[fired[i-1]], -l.wheel.Tick(),
				"order within a tick is free; seed %d", seed)
		}
	}
	_, ok := l.Reset(timers[1], time.Second)
	require.False(t, ok, "it has fired")
	require.Zero(t, l.Stats().Timers)
	require.EqualValues(t, len(fired), l.Stats().TimersFired)
}

func TestATimerFiresWithinItsTick(t *testing.T) {
	l := turnByHand(t, conf.RingEpoll, nothing, Config{Rest: Spin})
	fired := false
	l.After(time.Millisecond, func() { fired = true })
	l.turns(t, 1, time.Millisecond-1)
	require.False(t, fired)
	l.turns(t, 1, 1+timerTick)
	require.True(t, fired)
}

func TestResetInATimersOwnFunctionArmsItAgain(t *testing.T) {
	l := turnByHand(t, conf.RingEpoll, nothing, Config{Rest: Spin})
	n := 0
	var tick Timer
	tick = l.After(time.Millisecond, func() {
		n++
		if n == 4 {
			require.False(t, l.Cancel(tick), "in its own function it has fired")
			return
		}
		again, ok := l.Reset(tick, time.Millisecond)
		require.True(t, ok)
		require.Equal(t, tick, again)
	})
	l.turns(t, 10, 2*time.Millisecond)
	require.Equal(t, 4, n)
	_, ok := l.Reset(tick, time.Millisecond)
	require.False(t, ok)

	// Armed again and then cancelled in its own function, with another timer made in the meantime.
	other := 0
	tick = l.After(0, func() {
		_, ok := l.Reset(tick, time.Millisecond)
		require.True(t, ok)
		require.True(t, l.Cancel(tick))
		l.After(time.Millisecond, func() { other++ })
	})
	l.turns(t, 10, time.Millisecond)
	require.Equal(t, 1, other)
}

func TestTimersOfTimersWaitForTheNextTurn(t *testing.T) {
	l := turnByHand(t, conf.RingEpoll, nothing, Config{Rest: Spin})
	n := 0
	var again func()
	again = func() { n++; l.After(-time.Second, again) }
	l.After(0, again)
	l.turns(t, 5, 0)
	require.Equal(t, 5, n)
	require.True(t, l.Cancel(timerOf(0, l.calls[0].gen)) || l.Cancel(timerOf(1, l.calls[1].gen)))
}

func TestTimerBudget(t *testing.T) {
	l := turnByHand(t, conf.RingEpoll, nothing, Config{Rest: Wait, TimerBudget: 3})
	n := 0
	for range 10 {
		l.After(0, func() { n++ })
	}
	for _, want := range []int{3, 6, 9, 10} {
		l.turns(t, 1, time.Microsecond)
		require.Equal(t, want, n)
	}
}

func TestHandlesOfNoTimer(t *testing.T) {
	l := turnByHand(t, conf.RingEpoll, nothing, Config{})
	for _, handle := range []Timer{0, 1, 99, timerOf(0, 2), timerOf(1<<31, 1)} {
		require.False(t, l.Cancel(handle), handle.String())
		moved, ok := l.Reset(handle, 1)
		require.False(t, ok)
		require.Zero(t, moved)
	}
	a := l.After(time.Hour, func() {})
	require.True(t, l.Cancel(a))
	b := l.After(time.Hour, func() {}) // in the same place
	require.NotEqual(t, a, b)
	require.False(t, l.Cancel(a))
	require.Equal(t, fmt.Sprintf("timer %d.%d", uint32(b), uint32(b>>32)), b.String())
	require.True(t, l.Cancel(b))
}

func TestTimersWakeARestingLoop(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		late := make(chan time.Duration, 20)
		launch(t, kind, nothing, Config{Rest: Wait}, func(l *Loop) {
			n := 0
			var tick func()
			tick = func() {
				start := l.Now() // a timer counts from the turn's reading of the clock
				l.After(5*time.Millisecond, func() {
					late <- time.Since(start)
					if n++; n < cap(late) {
						tick()
					}
				})
			}
			tick()
		})
		early := 0
		for range cap(late) {
			d := wait(t, late)
			if d < 5*time.Millisecond {
				early++
			}
			require.Less(t, d, 5*time.Second)
		}
		require.Zero(t, early)
	})
}
