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
func (c *conn) SetDeadline(t time.Time) error { return c.setDeadline(t, true, true) }

// SetReadDeadline is SetDeadline for reading.
func (c *conn) SetReadDeadline(t time.Time) error { return c.setDeadline(t, true, false) }

// SetWriteDeadline is SetDeadline for writing.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(t, false, true) }

func (c *conn) setDeadline(t time.Time, read, write bool) error {
	if c.el.exact {
		return ErrUnsupportedOp
	}
	return c.el.here(func() error {
		if c.state != stateOpen {
			return net.ErrClosed
		}
		w := c.deadlines()
		d := time.Duration(-1)
		if !t.IsZero() {
			d = max(0, time.Until(t))
		}
		if read {
			w.set(timerRead, d)
		}
		if write {
			w.writeExpired = false
			w.set(timerWrite, d)
		}
		return nil
	})
}

// SetIdleTimeout closes the connection once nothing was received or written for d; 0 turns it off.
func (c *conn) SetIdleTimeout(d time.Duration) error {
	if d < 0 {
		return badOption("idle timeout", d)
	}
	return c.el.here(func() error {
		if c.state != stateOpen {
			return net.ErrClosed
		}
		c.startIdle(d)
		return nil
	})
}

func (c *conn) startIdle(d time.Duration) {
	if d == 0 && c.timers == nil {
		return
	}
	w := c.deadlines()
	w.idle = d
	if d == 0 {
		d = -1
	}
	w.set(timerIdle, d)
}

func (c *conn) deadlines() *timers {
	if c.timers == nil {
		c.timers = &timers{c: c}
	}
	return c.timers
}

// here runs f on the loop: at once when that is where the caller is, else soon, and the caller is not notified.
func (el *eventloop) here(f func() error) error {
	if el.onLoop() {
		return f()
	}
	return el.tasks.push(task{kind: taskRun, run: func() { _ = f() }})
}

// set starts or moves a timer; a negative d stops it.
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

// active moves the idle timer.
func (w *timers) active() {
	if w.idle > 0 {
		if t, ok := w.c.el.loop.Reset(w.timer[timerIdle], w.idle); ok {
			w.timer[timerIdle] = t
		}
	}
}

func (w *timers) stop() {
	for i := range w.timer {
		w.set(i, -1)
	}
	w.c.timers = nil
}

// expired is a deadline that has passed. Timers end with their connection, so the slot is still its own.
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
	c.reset = c.out.size > 0 // see giveUp
	_ = el.close(c, os.ErrDeadlineExceeded)
	el.after()
}
