package gnet

import (
	"net"
	"os"
	"time"

	"github.com/socketxtreme/socketxtreme/reactor"
)

// timers is the deadlines of a connection; few connections have any.
type timers struct {
	c            *conn
	idle         time.Duration
	timer        [3]reactor.Timer
	writeExpired bool // the write deadline passed while nothing waited to be sent
}

const (
	timerRead = iota
	timerWrite
	timerIdle
)

// SetDeadline, SetReadDeadline and SetWriteDeadline close the connection at t with os.ErrDeadlineExceeded in OnClose:
// there is no blocked call that could return it instead. A read deadline holds whether or not data comes, until it is
// moved; a write deadline only if something waits to be sent then or later. The zero time takes them back. Exact gnet
// answers ErrUnsupportedOp. Any goroutine.
func (c *conn) SetDeadline(t time.Time) error { return c.setDeadline(t, timerRead, timerWrite) }

// SetReadDeadline is SetDeadline for reading.
func (c *conn) SetReadDeadline(t time.Time) error { return c.setDeadline(t, timerRead) }

// SetWriteDeadline is SetDeadline for writing.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(t, timerWrite) }

// setDeadline sets or, with the zero time, removes the deadlines of timerRead, timerWrite or both. It works on the loop. Any goroutine.
func (c *conn) setDeadline(t time.Time, which ...int) error {
	if c.el.exact {
		return ErrUnsupportedOp
	}
	return c.el.runOnLoop(func() error {
		if c.state != stateOpen {
			return net.ErrClosed
		}
		w := c.deadlines()
		d := time.Duration(-1)
		if !t.IsZero() {
			d = max(0, time.Until(t)) + c.el.turnAge()
		}
		for _, k := range which {
			if k == timerWrite {
				w.writeExpired = false
			}
			w.set(k, d)
		}
		return nil
	})
}

// SetIdleTimeout closes the connection once nothing was received or written for d; 0 turns it off.
func (c *conn) SetIdleTimeout(d time.Duration) error {
	if d < 0 {
		return badOption("idle timeout", d)
	}
	return c.el.runOnLoop(func() error {
		if c.state != stateOpen {
			return net.ErrClosed
		}
		c.startIdle(d)
		return nil
	})
}

// startIdle starts, moves or, with 0, stops the idle timer. Loop only.
func (c *conn) startIdle(d time.Duration) {
	if d == 0 && c.timers == nil {
		return
	}
	w := c.deadlines()
	w.idle = d
	if d == 0 {
		d = -1
	} else {
		d += c.el.turnAge()
	}
	w.set(timerIdle, d)
}

// deadlines returns the connection's timers, which most connections never have.
func (c *conn) deadlines() *timers {
	if c.timers == nil {
		c.timers = &timers{c: c}
	}
	return c.timers
}

// runOnLoop runs f on the loop: at once, with its error, if the caller is on the loop; else later, and its error is dropped.
func (el *eventloop) runOnLoop(f func() error) error {
	if el.onLoop() {
		return f()
	}
	return el.tasks.push(task{kind: taskRun, run: func() { _ = f() }})
}

// turnAge returns how long the loop's turn has lasted. It is added to a time that is counted from now, because the loop's After counts from the
// beginning of the turn: without it a timer that a handler starts after long work fires early. Loop only.
func (el *eventloop) turnAge() time.Duration { return time.Since(el.loop.Now()) }

// set starts or moves a timer that fires d after the beginning of the loop's turn; a negative d stops it.
func (w *timers) set(which int, d time.Duration) {
	loop := w.c.el.loop
	if t := w.timer[which]; t != 0 {
		w.timer[which] = 0
		loop.Cancel(t)
	}
	if d >= 0 {
		w.timer[which] = loop.AfterData(d, w.c.el.expire, uint64(w.c.slot)<<2|uint64(which))
	}
}

// received moves the idle timer, because something was received. The time counts from the beginning of the loop's turn, in which the data was
// taken from the ring.
func (w *timers) received() {
	if w.idle > 0 {
		w.moveIdle(w.idle)
	}
}

// written moves the idle timer, because something was written. The time counts from now: the handler may have worked for long in this turn.
func (w *timers) written() {
	if w.idle > 0 {
		w.moveIdle(w.idle + w.c.el.turnAge())
	}
}

// moveIdle has the idle timer fire d after the beginning of the loop's turn.
func (w *timers) moveIdle(d time.Duration) {
	if t, ok := w.c.el.loop.Reset(w.timer[timerIdle], d); ok {
		w.timer[timerIdle] = t
	}
}

// stop stops all timers of a connection that is closed.
func (w *timers) stop() {
	for i := range w.timer {
		w.set(i, -1)
	}
	w.c.timers = nil
}

// expired is the function of the timers for deadlines and idle timeouts; data is the connection's slot and which timer it is. A connection's
// timers are stopped when it is closed, so the slot still belongs to it.
func (el *eventloop) expired(_ *reactor.Loop, data uint64) {
	el.depth, el.current = 0, nil // as a panic may have left them
	c := el.conns[data>>2].c
	which := int(data & 3)
	if c == nil || c.timers == nil || c.state != stateOpen {
		return
	}
	c.timers.timer[which] = 0
	if which == timerWrite && c.out.size == 0 {
		c.timers.writeExpired = true
		return
	}
	c.reset = c.out.size > 0 // dropping data resets: see abortFull
	_ = el.close(c, os.ErrDeadlineExceeded)
	el.after()
}
