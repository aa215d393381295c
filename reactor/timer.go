package reactor

import (
	"fmt"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/wheel"
)

// Timer is a handle to a timer of a loop. The zero Timer is none; a handle goes stale when its function has returned
// without calling Reset, or with Cancel.
type Timer uint64

func timerOf(slot, gen uint32) Timer { return Timer(gen)<<32 | Timer(slot) }

// timerTick is how late a timer may fire. Finer than the wheel's own default because a loop's timers pace what it
// sends; the wheel's costs do not depend on it.
const timerTick = 1 << 16 * time.Nanosecond

// timers ties a wheel's timers to the functions they run.
type timers struct {
	wheel   *wheel.Wheel
	calls   []call
	unused  uint32 // first free call plus one, 0 = none
	firing  Timer  // whose function is running
	onTimer func(uint64)
}

// call is what a timer runs.
type call struct {
	f     func()
	with  func(*Loop, uint64)
	data  uint64
	timer wheel.Timer // 0 while the function runs, until it calls Reset
	gen   uint32      // odd while in use
	next  uint32      // of the free ones, plus one
}

func (t *timers) init(l *Loop) {
	t.wheel = wheel.New(l.now, timerTick)
	t.onTimer = l.fire
}

// After runs f on the loop once d has passed since Now, at most 66 µs after that if the loop is not held up. A d that
// is not positive means the next turn. Starting, moving and cancelling a timer take constant time and, in a loop that
// has had as many timers before, allocate nothing (a closure given as f may). Loop only.
func (l *Loop) After(d time.Duration, f func()) Timer {
	if f == nil {
		panic("reactor: After: function nil")
	}
	l.mine("After")
	return l.startTimer(d, call{f: f})
}

// AfterData is After for a function that is given a number, such as a connection's index: one function value serves
// thousands of timers, and none needs a closure. Loop only.
func (l *Loop) AfterData(d time.Duration, f func(l *Loop, data uint64), data uint64) Timer {
	if f == nil {
		panic("reactor: AfterData: function nil")
	}
	l.mine("AfterData")
	return l.startTimer(d, call{with: f, data: data})
}

// Reset moves a timer to d after Now. Later deadlines are only stored, so a connection's idle timer may be moved with
// every packet. In the timer's own function it arms the timer again. The handle stays the same; 0 and false report that
// the timer has fired or was cancelled. Loop only.
func (l *Loop) Reset(t Timer, d time.Duration) (Timer, bool) {
	l.mine("Reset")
	c := l.live(t)
	if c == nil {
		return 0, false
	}
	at := l.now.Add(d)
	if c.timer == 0 {
		c.timer = l.wheel.Start(at, uint64(uint32(t)))
	} else {
		c.timer, _ = l.wheel.Reset(c.timer, at)
	}
	return t, true
}

// Cancel stops a timer; false reports that it has fired or was cancelled before. Loop only.
func (l *Loop) Cancel(t Timer) bool {
	l.mine("Cancel")
	c := l.live(t)
	if c == nil || c.timer == 0 {
		return false
	}
	l.wheel.Stop(c.timer)
	l.freeCall(uint32(t), c)
	return true
}

func (l *Loop) startTimer(d time.Duration, c call) Timer {
	if l.unused == 0 {
		l.calls = append(l.calls, call{})
		l.unused = uint32(len(l.calls))
	}
	slot := l.unused - 1
	at := &l.calls[slot]
	l.unused = at.next
	c.gen = at.gen + 1
	c.timer = l.wheel.Start(l.now.Add(d), uint64(slot))
	*at = c
	return timerOf(slot, c.gen)
}

// live is the call of a timer that waits or whose function is running; nil otherwise.
func (t *timers) live(handle Timer) *call {
	slot := uint32(handle)
	if uint64(slot) >= uint64(len(t.calls)) {
		return nil
	}
	c := &t.calls[slot]
	if gen := uint32(handle >> 32); c.gen != gen || gen&1 == 0 {
		return nil
	}
	return c
}

func (t *timers) freeCall(slot uint32, c *call) {
	*c = call{gen: c.gen + 1, next: t.unused}
	t.unused = slot + 1
}

// expire fires the timers that are due by the turn's clock, after what a long gap left in the rings.
func (l *Loop) expire() error {
	if l.behind > 0 {
		if next, ok := l.wheel.Next(); ok && next <= l.now {
			if err := l.catchUp(); err != nil {
				return err
			}
		}
	}
	l.doing = inTimer
	l.wheel.Expire(l.now, l.config.TimerBudget, l.onTimer)
	l.doing = inRing
	return nil
}

// fire runs the function of the timer in a slot.
func (l *Loop) fire(data uint64) {
	slot := uint32(data)
	c := &l.calls[slot]
	c.timer = 0
	l.firing = timerOf(slot, c.gen)
	l.busy = true
	l.stats.TimersFired++
	if c.f != nil {
		c.f()
	} else {
		c.with(l, c.data)
	}
	l.fired()
}

// fired is the end of a timer's function, or of the panic in it.
func (l *Loop) fired() {
	slot := uint32(l.firing)
	if c := l.live(l.firing); c != nil && c.timer == 0 {
		l.freeCall(slot, c)
	}
	l.firing = 0
}

// String is the value in words.
func (t Timer) String() string { return fmt.Sprintf("timer %d.%d", uint32(t), uint32(t>>32)) }
