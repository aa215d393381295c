package netconn

import (
	"sync"
	"time"
)

// gate is where goroutines wait in one direction of an endpoint: a condition and a deadline. Everything is guarded by the
// endpoint's mutex.
//
// The runtime's timer is touched only when somebody has to wait, and not even then while it is set to fire earlier than
// needed: a server that moves its deadlines with every request pays for reading the clock, not for moving timers.
type gate struct {
	mu       *sync.Mutex
	cond     sync.Cond
	waiting  int       // goroutines in wait that nobody has woken
	deadline time.Time // zero: none
	timer    *time.Timer
	armed    time.Time // when timer fires; zero: it does not
}

func (g *gate) init(mu *sync.Mutex) {
	g.mu = mu
	g.cond.L = mu
}

// wait sleeps until wake, wakeAll or the deadline; the caller looks again at what it waits for.
func (g *gate) wait() {
	if !g.deadline.IsZero() {
		g.arm()
	}
	g.waiting++
	g.cond.Wait()
}

// wake wakes one goroutine and reports whether there was one. A second call before that one ran wakes nobody: a burst is one
// wake-up.
func (g *gate) wake() bool {
	if g.waiting == 0 {
		return false
	}
	g.waiting--
	g.cond.Signal()
	return true
}

func (g *gate) wakeAll() bool {
	if g.waiting == 0 {
		return false
	}
	g.waiting = 0
	g.cond.Broadcast()
	return true
}

// expired reports whether the deadline has passed.
func (g *gate) expired() bool { return !g.deadline.IsZero() && !time.Now().Before(g.deadline) }

// set moves the deadline; who waits looks again.
func (g *gate) set(t time.Time) {
	g.deadline = t
	g.wakeAll()
}

// stop ends the timer, at the endpoint's end.
func (g *gate) stop() {
	if g.timer != nil {
		g.timer.Stop()
		g.armed = time.Time{}
	}
}

func (g *gate) arm() {
	if !g.armed.IsZero() && !g.deadline.Before(g.armed) {
		return // it fires before that, and arms itself again
	}
	g.armed = g.deadline
	if d := time.Until(g.deadline); g.timer == nil {
		g.timer = time.AfterFunc(d, g.fire)
	} else {
		g.timer.Reset(d)
	}
}

func (g *gate) fire() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed = time.Time{}
	switch {
	case g.waiting == 0 || g.deadline.IsZero():
	case g.expired():
		g.wakeAll()
	default:
		g.arm()
	}
}
