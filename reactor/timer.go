package reactor

import (
	"fmt"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/wheel"
	"github.com/socketxtreme/socketxtreme/ring"
)

// Timer is a handle to a timer of a loop. The zero Timer is no timer. A handle becomes invalid with Cancel, or when the timer's function has
// returned without calling Reset.
type Timer uint64

// timerOf makes the handle of a slot in timers.calls and the slot's generation.
func timerOf(slot, gen uint32) Timer { return Timer(gen)<<32 | Timer(slot) }

// timerTick is how late a timer may fire. It is finer than the wheel's default because programs pace what they send by a loop's timers; the
// wheel's cost does not depend on it.
const timerTick = 1 << 16 * time.Nanosecond

// timers ties a wheel's timers to the functions they run.
type timers struct {
	wheel   *wheel.Wheel
	calls   []call
	unused  uint32       // first free call plus one, 0 = none
	firing  Timer        // the timer whose function is running
	onTimer func(uint64) // Loop.fire, made once because a method value allocates
}

// call is a slot of timers: the function that a timer runs.
type call struct {
	f     func()              // of After
	with  func(*Loop, uint64) // of AfterData, with data
	data  uint64
	timer wheel.Timer // 0 while the function runs, until it calls Reset
	gen   uint32      // odd while the slot is in use
	next  uint32      // the next free slot plus one, 0 = none
}

// init makes the wheel of a new loop.
func (t *timers) init(l *Loop) {
	t.wheel = wheel.New(l.now, timerTick)
	t.onTimer = l.fire
}

// After runs f on the loop when d has passed since Now, at most 66 µs later unless the loop is busy. With a d that is not positive f runs in
// the next turn. Starting, moving and cancelling a timer takes constant time, and allocates nothing in a loop that has had as many timers
// before; a closure that is given as f may allocate. Loop only.
func (l *Loop) After(d time.Duration, f func()) Timer {
	if f == nil {
		panic("reactor: After: function nil")
	}
	l.checkCaller("After")
	return l.startTimer(d, call{f: f})
}

// AfterData is After for a function with an argument, such as a connection's index: one function value serves thousands of timers, and none
// needs a closure. Loop only.
func (l *Loop) AfterData(d time.Duration, f func(l *Loop, data uint64), data uint64) Timer {
	if f == nil {
		panic("reactor: AfterData: function nil")
	}
	l.checkCaller("AfterData")
	return l.startTimer(d, call{with: f, data: data})
}

// Reset moves a timer to d after Now; in the timer's own function it starts the timer again. Moving a timer to later only stores the
// deadline, so a connection's idle timer may be moved with every packet. It returns the same handle and true, or 0 and false if the timer has
// fired or was cancelled. Loop only.
func (l *Loop) Reset(t Timer, d time.Duration) (Timer, bool) {
	l.checkCaller("Reset")
	c := l.live(t)
	if c == nil {
		return 0, false
	}
	at := l.now.Add(d)
	if c.timer == 0 { // its own function calls: it has left the wheel
		c.timer = l.wheel.Start(at, uint64(uint32(t)))
	} else {
		c.timer, _ = l.wheel.Reset(c.timer, at)
	}
	return t, true
}

// Cancel stops a timer. It returns false if the timer has fired or was cancelled before. Loop only.
func (l *Loop) Cancel(t Timer) bool {
	l.checkCaller("Cancel")
	c := l.live(t)
	if c == nil || c.timer == 0 {
		return false
	}
	l.wheel.Stop(c.timer)
	l.freeCall(uint32(t), c)
	return true
}

// startTimer starts a timer for After and AfterData: it takes a free slot, or a new one, and starts the wheel's timer with the slot's number.
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

// live returns the slot of a timer that has not fired yet or whose function is running; nil for an invalid handle.
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

// freeCall frees a slot. Its next generation makes handles to it invalid.
func (t *timers) freeCall(slot uint32, c *call) {
	*c = call{gen: c.gen + 1, next: t.unused}
	t.unused = slot + 1
}

// expire fires the timers that are due by the turn's clock. After a long gap it first handles the data that arrived during the gap (catchUp),
// which may move or cancel those timers.
func (l *Loop) expire() error {
	if l.behind > 0 {
		if next, ok := l.wheel.Next(); ok && next <= l.now {
			if err := l.catchUp(); err != nil {
				return err
			}
		}
	}
	l.doing = inTimer
	fired := l.stats.TimersFired
	l.wheel.Expire(l.now, l.config.TimerBudget, l.onTimer)
	if l.stats.TimersFired != fired {
		l.poller.MarkWork(ring.WorkUnknown)
	}
	l.doing = inRing
	return nil
}

// fire runs the function of a timer that is due. The wheel calls it with the number of the timer's slot.
func (l *Loop) fire(data uint64) {
	slot := uint32(data)
	c := &l.calls[slot]
	c.timer = 0
	l.firing = timerOf(slot, c.gen)
	l.busy = true
	l.stats.TimersFired++
	l.poller.MarkWork(ring.WorkTimers)
	if c.f != nil {
		c.f()
	} else {
		c.with(l, c.data)
	}
	l.endFiring()
}

// endFiring frees the slot of the timer whose function has returned or panicked, unless the function started the timer again.
func (l *Loop) endFiring() {
	slot := uint32(l.firing)
	if c := l.live(l.firing); c != nil && c.timer == 0 {
		l.freeCall(slot, c)
	}
	l.firing = 0
}

// String is the value in words.
func (t Timer) String() string { return fmt.Sprintf("timer %d.%d", uint32(t), uint32(t>>32)) }
