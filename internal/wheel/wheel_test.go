package wheel

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

const (
	ms   = clock.Time(time.Millisecond)
	hour = clock.Time(time.Hour)
	year = 8766 * hour
	many = math.MaxInt
)

// fired collects what one Expire fires, all of it.
func fired(t *testing.T, w *Wheel, now clock.Time) (all []uint64) {
	t.Helper()
	for more := true; more; {
		_, more = w.Expire(now, many, func(data uint64) { all = append(all, data) })
	}
	return all
}

func TestTickIsRoundedDown(t *testing.T) {
	for _, test := range []struct{ asked, got time.Duration }{
		{time.Millisecond, 524288}, {0, 524288}, {-time.Hour, 524288}, {1, 1}, {2, 2}, {3, 2}, {1024, 1024},
		{math.MaxInt64, 1 << 62},
	} {
		require.Equal(t, test.got, New(0, test.asked).Tick(), "asked %d", test.asked)
	}
}

func TestFiresWithinATickAndNeverEarly(t *testing.T) {
	for _, start := range []clock.Time{0, 1, 12345678, -5 * hour, math.MinInt64, clock.Never - 10*year} {
		for _, tick := range []time.Duration{1, 1000, time.Millisecond, time.Second} {
			for _, d := range []clock.Time{1, 2, 63, 64, 65, ms, 64 * ms, 4096*ms + 1, hour, year, 5 * year} {
				w := New(start, tick)
				at := start + d
				w.Start(at, 7)
				require.Empty(t, fired(t, w, start))
				require.Empty(t, fired(t, w, start+d/2))
				require.Empty(t, fired(t, w, at-1), "early: start %d tick %d after %d", start, tick, d)
				late := at + clock.Time(w.Tick()) - 1
				require.Equal(t, []uint64{7}, fired(t, w, late), "late: start %d tick %d after %d", start, tick, d)
				require.Zero(t, w.Len())
				require.Empty(t, fired(t, w, late+year))
				intact(t, w)
			}
		}
	}
}

func TestPastDeadlinesFireOnTheNextExpire(t *testing.T) {
	w := New(hour, time.Millisecond)
	w.Start(hour, 1)
	w.Start(hour-1, 2)
	w.Start(0, 3)
	w.Start(math.MinInt64, 4)
	next, ok := w.Next()
	require.True(t, ok)
	require.LessOrEqual(t, next, hour)
	require.ElementsMatch(t, []uint64{1, 2, 3, 4}, fired(t, w, hour))
}

func TestFiresInOrderOfTicks(t *testing.T) {
	w := New(0, 1)
	for i := range 3000 {
		d := uint64(i*i*i) % 1_000_003
		w.Start(clock.Time(d), d)
	}
	all := fired(t, w, hour)
	require.Len(t, all, 3000)
	require.IsNonDecreasing(t, all)
}

func TestStaleHandlesDoNothing(t *testing.T) {
	w := New(0, 0)
	stopped, expired := w.Start(hour, 1), w.Start(ms, 2)
	require.True(t, w.Stop(stopped))
	require.Equal(t, []uint64{2}, fired(t, w, 2*ms))
	live := []Timer{w.Start(hour, 3), w.Start(hour, 4)} // in the same entries
	beyond := timerOf(uint32(len(w.table)), 1)
	unused := timerOf(w.free, w.table[w.free].gen)
	for _, stale := range []Timer{0, stopped, expired, beyond, unused, timerOf(3, 0), timerOf(3, 1), math.MaxUint64} {
		require.False(t, w.Stop(stale))
		got, ok := w.Reset(stale, 0)
		require.False(t, ok)
		require.Zero(t, got)
	}
	require.Equal(t, 2, w.Len())
	for _, timer := range live {
		require.NotZero(t, timer)
		require.True(t, w.Stop(timer))
		require.False(t, w.Stop(timer))
	}
	require.Zero(t, w.Len())
}

func TestGenerationWrapsPastZero(t *testing.T) {
	w := New(0, 0)
	i := w.Start(hour, 1).index()
	w.remove(i, &w.table[i])
	w.table[i].gen = math.MaxUint32 - 1 // even: free
	last := w.Start(hour, 2)
	require.True(t, w.Stop(last))
	again := w.Start(hour, 3)
	require.Equal(t, last.index(), again.index())
	require.NotZero(t, again)
	require.False(t, w.Stop(last))
	require.True(t, w.Stop(again))
}

func TestResetLaterIsOnlyStored(t *testing.T) {
	w := New(0, 0)
	timer := w.Start(10*ms, 1)
	slot := w.table[timer.index()].slot
	for d := 11 * ms; d < 1000*ms; d += ms {
		got, ok := w.Reset(timer, d)
		require.True(t, ok)
		require.Equal(t, timer, got)
		require.Equal(t, slot, w.table[timer.index()].slot)
	}
	next, _ := w.Next()
	require.LessOrEqual(t, next, 11*ms, "the wheel wakes for the old deadline")
	require.Empty(t, fired(t, w, 20*ms))
	next, _ = w.Next()
	require.Greater(t, next, 20*ms, "and then for the new one")
	require.Empty(t, fired(t, w, 999*ms-1))
	require.Equal(t, []uint64{1}, fired(t, w, 1000*ms))
}

func TestResetEarlierMoves(t *testing.T) {
	w := New(0, 0)
	timer := w.Start(hour, 1)
	w.Reset(timer, 10*ms)
	next, ok := w.Next()
	require.True(t, ok)
	require.LessOrEqual(t, next, 10*ms+clock.Time(w.Tick()))
	require.Empty(t, fired(t, w, 10*ms-1))
	require.Equal(t, []uint64{1}, fired(t, w, 11*ms))

	timer = w.Start(hour, 2)
	w.Reset(timer, 0)
	require.Equal(t, []uint64{2}, fired(t, w, 11*ms), "a deadline in the past")

	w.Reset(w.Start(0, 3), hour)
	require.Empty(t, fired(t, w, 11*ms), "a timer due at once is put off")
	require.Equal(t, []uint64{3}, fired(t, w, 2*hour))
}

func TestNeverNeedsNoWakeUp(t *testing.T) {
	w := New(0, 0)
	w.Start(clock.Never, 1)
	_, ok := w.Next()
	require.False(t, ok)
	require.Equal(t, 1, w.Len())
	require.Empty(t, fired(t, w, 100*year))
	require.Empty(t, fired(t, w, clock.Never))

	w = New(0, 0)
	timer := w.Start(ms, 1)
	w.Reset(timer, clock.Never)
	require.Empty(t, fired(t, w, hour))
	_, ok = w.Next()
	require.False(t, ok)
	w.Reset(timer, clock.Never)
	w.Reset(timer, hour+ms)
	require.Equal(t, []uint64{1}, fired(t, w, hour+2*ms))

	timer = w.Start(clock.Never, 2)
	require.True(t, w.Stop(timer))
	require.Zero(t, w.Len())
	intact(t, w)
}

func TestTheLastTickBeforeNever(t *testing.T) {
	w := New(math.MinInt64, time.Hour)
	w.Start(clock.Never-1, 1)
	for now, ok := w.Next(); ok && now < clock.Never; now, ok = w.Next() {
		require.Empty(t, fired(t, w, now))
	}
	require.Empty(t, fired(t, w, clock.Never), "its tick ends after the last instant there is")
	next, ok := w.Next()
	require.True(t, ok)
	require.Equal(t, clock.Never, next)
}

func TestLimitBoundsACall(t *testing.T) {
	w := New(0, 0)
	for i := range 1000 {
		w.Start(clock.Time(i)*ms, uint64(i))
	}
	var all []uint64
	collect := func(data uint64) { all = append(all, data) }
	n, more := w.Expire(hour, 0, collect)
	require.Zero(t, n)
	require.True(t, more)
	n, more = w.Expire(hour, -1, collect)
	require.Zero(t, n)
	require.True(t, more)
	for calls := 0; more; calls++ {
		require.Less(t, calls, 1000)
		next, ok := w.Next()
		require.True(t, ok)
		require.LessOrEqual(t, next, hour, "more to do means no rest")
		n, more = w.Expire(hour, 7, collect)
		require.LessOrEqual(t, n, 7)
	}
	require.Len(t, all, 1000)
	require.IsIncreasing(t, all)
	n, more = w.Expire(hour, 0, collect)
	require.Zero(t, n)
	require.False(t, more)
}

func TestMoreIsFalseWhenLimitWasJustEnough(t *testing.T) {
	w := New(0, 0)
	for i := range 5 {
		w.Start(ms, uint64(i))
	}
	w.Start(hour, 9)
	n, more := w.Expire(2*ms, 5, func(uint64) {})
	require.Equal(t, 5, n)
	require.False(t, more)
}

// A slot with very many timers, all further on, must not be spread in one go.
func TestMovesAreBounded(t *testing.T) {
	const timers = 10_000
	w := New(0, 0)
	for i := range timers {
		w.Start(hour+clock.Time(i), 1)
	}
	boundary, _ := w.Next() // the start of the slot they share
	calls, left := 0, timers
	for more := true; more; calls++ {
		var n int
		n, more = w.Expire(boundary, 10, func(uint64) {})
		require.Zero(t, n)
		still := len(listOf(w, w.open)) // none when the slot is done
		require.LessOrEqual(t, left-still, 4*10+64)
		left = still
		intact(t, w)
	}
	require.Zero(t, left)
	require.GreaterOrEqual(t, calls, timers/(4*10+64))
	require.Len(t, fired(t, w, hour+ms), timers)
}

func TestJumpsOfAnyLengthAreShort(t *testing.T) {
	w := New(0, 1)
	for i := range uint64(60) {
		w.Start(clock.Time(1)<<i, i)
	}
	start := time.Now()
	require.Len(t, fired(t, w, 60*year), 60)
	require.Less(t, time.Since(start), time.Second, "tick by tick this takes years")
	require.Equal(t, w.reached(60*year), w.elapsed)
}

func TestTimeThatGoesBackChangesNothing(t *testing.T) {
	w := New(hour, 0)
	require.Empty(t, fired(t, w, 2*hour))
	w.Start(2*hour-ms, 1)
	w.Start(2*hour+ms, 2)
	require.Equal(t, []uint64{1}, fired(t, w, 0), "due at the latest now there was")
	require.Equal(t, []uint64{2}, fired(t, w, 2*hour+2*ms))
}

func TestCallbackMayChangeTimers(t *testing.T) {
	w := New(0, 0)
	a, b := w.Start(5*ms, 'a'), w.Start(6*ms, 'b')
	c := w.Start(50*ms, 'c')
	w.Start(ms, 'f')
	var all []uint64
	run := func(data uint64) {
		all = append(all, data)
		if data == 'f' {
			require.True(t, w.Stop(a))
			require.False(t, w.Stop(a))
			_, ok := w.Reset(b, 8*ms)
			require.True(t, ok)
			_, ok = w.Reset(c, hour)
			require.True(t, ok)
			d, ok := w.Reset(w.Start(hour, 'd'), 8*ms)
			require.True(t, ok)
			require.NotZero(t, d)
			for range 500 { // the table grows under Expire
				w.Start(0, 'n')
			}
		}
	}
	n, more := w.Expire(10*ms, many, run)
	require.Equal(t, 1, n)
	require.False(t, more)
	require.Equal(t, []uint64{'f'}, all)
	n, _ = w.Expire(10*ms, many, run)
	require.Equal(t, 502, n, "b, d and what was started in the call before")
	require.Equal(t, []uint64{'f', 'b', 'd', 'n'}, all[:4])
	require.Equal(t, 1, w.Len())
	intact(t, w)
}

func TestCallbackThatRestartsItselfDoesNotHoldExpire(t *testing.T) {
	w := New(0, 0)
	w.Start(ms, 1)
	for now := ms; now < 100*ms; now += ms {
		n, more := w.Expire(now, many, func(data uint64) { w.Start(0, data) })
		require.LessOrEqual(t, n, 1)
		require.False(t, more)
	}
	require.Equal(t, 1, w.Len())
}

func TestCallbackThatPanicsLeavesTheWheelWhole(t *testing.T) {
	w := New(0, 0)
	for i := range 10 {
		w.Start(clock.Time(1+i)*ms, uint64(i))
	}
	require.Panics(t, func() {
		w.Expire(hour, many, func(data uint64) {
			if data == 4 {
				panic("f")
			}
		})
	})
	intact(t, w)
	require.Equal(t, []uint64{5, 6, 7, 8, 9}, fired(t, w, hour))
}

func TestNextIsFalseWhenEmpty(t *testing.T) {
	w := New(0, 0)
	_, ok := w.Next()
	require.False(t, ok)
	timer := w.Start(hour, 1)
	_, ok = w.Next()
	require.True(t, ok)
	w.Stop(timer)
	_, ok = w.Next()
	require.False(t, ok, "no wake-up for a stopped timer")
}

// Sleeping until Next each time reaches a timer in few wake-ups, however far away.
func TestWakeUpsOnTheWayAreFew(t *testing.T) {
	w := New(0, 0)
	w.Start(10*year, 1)
	wakes := 0
	for w.Len() > 0 {
		now, ok := w.Next()
		require.True(t, ok)
		fired(t, w, now)
		wakes++
		require.LessOrEqual(t, wakes, numLevels)
	}
}

func TestGrowMakesRoom(t *testing.T) {
	w := New(0, 0)
	w.Grow(1000)
	w.Grow(0)
	w.Grow(-5)
	require.Zero(t, testing.AllocsPerRun(1, func() {
		for range 500 {
			w.Start(hour, 0)
		}
	}))
	require.Equal(t, 1000, w.Len())
}

func TestSteadyUseDoesNotAllocate(t *testing.T) {
	w := New(0, 0)
	w.Grow(2000)
	var now clock.Time
	total := 0
	count := func(uint64) { total++ }
	random := rand.New(rand.NewPCG(1, 2))
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		a, b := w.Start(now+ms, 1), w.Start(now+clock.Time(random.Int64N(int64(hour))), 2)
		w.Reset(a, now+2*ms)
		w.Reset(a, now+ms/2)
		w.Reset(b, now+3*ms)
		w.Stop(b)
		now += ms
		w.Next()
		w.Expire(now, 64, count)
	}))
	require.Positive(t, total)
}

// intact checks what must hold between any two calls.
func intact(t testing.TB, w *Wheel) {
	t.Helper()
	timers := 0
	for list := range uint32(numLists) {
		members := listOf(w, list)
		timers += len(members)
		if list < numSlots {
			level, digit := list>>digitBits, list&digitMask
			if used := w.inUse[level]>>digit&1 == 1; used != (len(members) > 0) {
				t.Fatalf("slot %d.%d: bit %v, %d timers", level, digit, used, len(members))
			}
		}
		for _, i := range members {
			e := &w.table[i]
			want := uint16(list)
			if list == listNew {
				want = listDue
			}
			if e.gen&1 == 0 || e.slot != want {
				t.Fatalf("entry %d in list %d: generation %d, slot %d", i, list, e.gen, e.slot)
			}
			if list < numSlots && w.tickOf(e.at) < w.startOf(e.slot) {
				t.Fatalf("entry %d would be late: tick %d in a slot from %d", i, w.tickOf(e.at), w.startOf(e.slot))
			}
			if list < numSlots && list != w.open && w.startOf(e.slot) <= w.elapsed {
				t.Fatalf("entry %d hangs in the past: slot from %d, elapsed %d", i, w.startOf(e.slot), w.elapsed)
			}
		}
	}
	for level := range numLevels {
		if (w.levels>>level&1 == 1) != (w.inUse[level] != 0) {
			t.Fatalf("level %d: bit wrong", level)
		}
	}
	if timers != w.count {
		t.Fatalf("%d timers hang, Len is %d", timers, w.count)
	}
	free := 0
	for i := w.free; i != 0; i = w.table[i].next {
		if free++; w.table[i].gen&1 == 1 {
			t.Fatalf("entry %d lives and is free", i)
		}
	}
	if free+timers+numLists != len(w.table) {
		t.Fatalf("%d free + %d timers + %d heads of %d entries", free, timers, numLists, len(w.table))
	}
	if w.open < numSlots && len(listOf(w, w.open)) > 0 && w.startOf(uint16(w.open)) != w.elapsed {
		t.Fatalf("open slot %d is not the one reached", w.open)
	}
	if w.elapsed > w.latest {
		t.Fatalf("elapsed %d beyond latest %d", w.elapsed, w.latest)
	}
}

func listOf(w *Wheel, list uint32) (members []uint32) {
	for i := w.table[list].next; i != list; i = w.table[i].next {
		if w.table[w.table[i].next].prev != i {
			panic("links do not agree")
		}
		members = append(members, i)
	}
	return members
}
