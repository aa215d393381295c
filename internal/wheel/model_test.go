package wheel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// model is the naive wheel, a map of deadlines looked through from end to end, beside the real one. A timer's data is
// its name.
type model struct {
	t      testing.TB
	w      *Wheel
	now    clock.Time
	names  uint64
	timers map[uint64]*modelTimer
	order  []*modelTimer // for choosing one repeatably
	dead   []Timer
	call   int    // number of the Expire running, or of the last one
	inside bool   // within its callback
	tick   uint64 // of the last timer that had to be in order
}

type modelTimer struct {
	name   uint64
	place  int // in order
	handle Timer
	at     clock.Time
	late   bool // its deadline had been reached when it was set: fires before its turn
	call   int  // the Expire whose callback set it, else 0
}

func newModel(t testing.TB, now clock.Time, tick time.Duration) *model {
	return &model{t: t, w: New(now, tick), now: now, timers: map[uint64]*modelTimer{}}
}

func (m *model) start(at clock.Time) {
	m.names++
	x := &modelTimer{name: m.names, place: len(m.order)}
	m.timers[x.name] = x
	m.order = append(m.order, x)
	x.handle = m.w.Start(at, x.name)
	m.set(x, at)
}

func (m *model) reset(choice uint64, at clock.Time) {
	if x := m.choose(choice); x != nil {
		if got, ok := m.w.Reset(x.handle, at); !ok || got != x.handle {
			m.t.Fatalf("Reset of timer %d: %v, %v", x.name, got, ok)
		}
		m.set(x, at)
	}
}

func (m *model) set(x *modelTimer, at clock.Time) {
	x.at, x.call = at, 0
	x.late = x.late || m.due(x)
	if m.inside {
		x.call = m.call
	}
}

func (m *model) stop(choice uint64) {
	if x := m.choose(choice); x != nil {
		if !m.w.Stop(x.handle) {
			m.t.Fatalf("Stop of timer %d: false", x.name)
		}
		m.forget(x)
	}
}

func (m *model) useDead(choice uint64) {
	if len(m.dead) == 0 {
		return
	}
	handle := m.dead[choice%uint64(len(m.dead))]
	if m.w.Stop(handle) {
		m.t.Fatalf("Stop of dead timer %x: true", handle)
	}
	if _, ok := m.w.Reset(handle, m.now); ok {
		m.t.Fatalf("Reset of dead timer %x: true", handle)
	}
}

// expire lets the wheel fire; f runs in each callback and may change timers.
func (m *model) expire(now clock.Time, limit int, f func()) (more bool) {
	m.now = max(m.now, now)
	m.call++
	names, fires := m.names, 0
	n, more := m.w.Expire(now, limit, func(name uint64) {
		fires++
		x := m.timers[name]
		switch {
		case x == nil:
			m.t.Fatalf("timer %d fired and does not run", name)
		case x.at > m.now:
			m.t.Fatalf("timer %d of %d fired early, at %d", name, x.at, m.now)
		case name > names:
			m.t.Fatalf("timer %d fired in the call that started it", name)
		case !x.late && m.w.tickOf(x.at) < m.tick:
			m.t.Fatalf("timer %d of tick %d fired after one of tick %d", name, m.w.tickOf(x.at), m.tick)
		case !x.late:
			m.tick = m.w.tickOf(x.at)
		}
		m.forget(x)
		m.inside = true
		f()
		m.inside = false
	})
	if n != fires || n > max(limit, 0) {
		m.t.Fatalf("Expire returns %d, %d fired, limit %d", n, fires, limit)
	}
	if !more {
		for _, x := range m.order {
			if m.due(x) && x.call != m.call {
				m.t.Fatalf("timer %d of %d has not fired at %d", x.name, x.at, m.now)
			}
		}
	}
	return more
}

// check compares what shows outside, and looks the wheel over inside.
func (m *model) check() {
	m.t.Helper()
	if m.w.Len() != len(m.order) {
		m.t.Fatalf("Len %d, model %d", m.w.Len(), len(m.order))
	}
	earliest := clock.Never
	for _, x := range m.order {
		earliest = min(earliest, x.at)
	}
	if earliest != clock.Never {
		next, ok := m.w.Next()
		if !ok || next > max(earliest.Add(m.w.Tick()), m.now) {
			m.t.Fatalf("Next %d, %v; the earliest deadline is %d", next, ok, earliest)
		}
	}
	intact(m.t, m.w)
}

// due is the guarantee: now has passed the deadline's rounded tick.
func (m *model) due(x *modelTimer) bool {
	return x.at != clock.Never && m.w.tickOf(x.at) <= m.w.reached(m.now)
}

func (m *model) choose(choice uint64) *modelTimer {
	if len(m.order) == 0 {
		return nil
	}
	return m.order[choice%uint64(len(m.order))]
}

func (m *model) forget(x *modelTimer) {
	m.dead = append(m.dead, x.handle)
	delete(m.timers, x.name)
	last := m.order[len(m.order)-1]
	m.order[x.place], last.place = last, x.place
	m.order = m.order[:len(m.order)-1]
}

// some is an instant around now: often near, sometimes past, at times years away or never.
func some(random *rand.Rand, now clock.Time, unit time.Duration) clock.Time {
	switch random.IntN(16) {
	case 0:
		return now.Add(-time.Duration(random.Int64N(int64(unit) * 100)))
	case 1:
		return now
	case 2:
		return clock.Never.Add(0)
	case 3:
		return clock.Never - clock.Time(random.Int64N(1000))
	}
	return now.Add(time.Duration(random.Int64N(int64(unit)<<random.IntN(30) | 1)))
}

func TestAgainstModel(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 40
	}
	for seed := range uint64(rounds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			unit := time.Duration(1) << random.IntN(24)
			begin := []clock.Time{0, clock.Now(), clock.Time(random.Int64()), -clock.Time(random.Int64()), math.MinInt64}
			start := begin[random.IntN(len(begin))]
			if start > clock.Never-200*year {
				start -= 200 * year
			}
			m := newModel(t, start, unit)
			playModel(m, random, unit, 1000)
		})
	}
}

func playModel(m *model, random *rand.Rand, unit time.Duration, operations int) {
	change := func() {
		at := some(random, m.now, unit)
		switch op := random.IntN(8); {
		case op < 3 && len(m.order) < 300:
			m.start(at)
		case op < 6:
			m.reset(random.Uint64(), at)
		case op < 7:
			m.stop(random.Uint64())
		default:
			m.useDead(random.Uint64())
		}
	}
	inCallback := func() {
		for range random.IntN(3) {
			change()
		}
	}
	for range operations {
		if random.IntN(4) > 0 {
			change()
			m.check()
			continue
		}
		limit := math.MaxInt
		if random.IntN(2) == 0 {
			limit = random.IntN(10) - 1
		}
		now := m.now
		switch random.IntN(8) {
		case 0:
			now -= clock.Time(unit) // must not matter
		case 1:
			now = now.Add(time.Duration(random.Int64N(int64(year)))) // a virtual year
		case 2, 3:
			if next, ok := m.w.Next(); ok && next < clock.Never-200*year {
				now = max(now, next)
			}
		default:
			now = now.Add(time.Duration(random.Int64N(int64(unit) << random.IntN(12))))
		}
		if now > clock.Never-year {
			now = m.now
		}
		m.expire(now, limit, inCallback)
		m.check()
	}
	// Everything with a deadline that time can reach fires in the end.
	last := clock.Never - clock.Time(m.w.Tick())
	for calls := 0; m.expire(last, math.MaxInt, func() {}); calls++ {
		if calls > 1000 {
			m.t.Fatal("no end")
		}
	}
	m.check()
}
