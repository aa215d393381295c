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
	waiting  int       // goroutines in wait that were not woken yet
	deadline time.Time // zero: none
	timer    *time.Timer
	armed    time.Time // when timer fires; zero: it does not
}

func (g *gate) init(mu *sync.Mutex) {
	g.mu = mu
	g.cond.L = mu
}

// wait blocks until wake, wakeAll or the deadline. The caller then checks again for what it waits for. With mu held.
func (g *gate) wait() {
	if !g.deadline.IsZero() {
		g.startTimer()
	}
	g.waiting++
	g.cond.Wait()
}

// wake wakes one waiting goroutine and reports whether there was one. With mu held. A goroutine that was woken and has not run yet does not
// count as waiting, so a burst of calls wakes it once.
func (g *gate) wake() bool {
	if g.waiting == 0 {
		return false
	}
	g.waiting--
	g.cond.Signal()
	return true
}

// wakeAll wakes all waiting goroutines and reports whether there was one. With mu held.
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

// set sets the deadline. Waiting goroutines see it. With mu held.
func (g *gate) set(t time.Time) {
	g.deadline = t
	g.wakeAll()
}

// stop stops the timer when the endpoint is closed.
func (g *gate) stop() {
	if g.timer != nil {
		g.timer.Stop()
		g.armed = time.Time{}
	}
}

// startTimer starts or moves the timer so that it fires by the deadline. A timer that fires earlier stays as it is: onTimer starts it again.
// With mu held.
func (g *gate) startTimer() {
	if !g.armed.IsZero() && !g.deadline.Before(g.armed) {
		return // it fires before that, and arms itself again
	}
	g.armed = g.deadline
	if d := time.Until(g.deadline); g.timer == nil {
		g.timer = time.AfterFunc(d, g.onTimer)
	} else {
		g.timer.Reset(d)
	}
}

// onTimer is the timer's function: it wakes the waiting goroutines if the deadline has passed, else it starts the timer again.
func (g *gate) onTimer() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed = time.Time{}
	switch {
	case g.waiting == 0 || g.deadline.IsZero():
	case g.expired():
		g.wakeAll()
	default:
		g.startTimer()
	}
}
