package protocol

import (
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// expireLimit bounds the deadlines of one Expire.
const expireLimit = 256

// Expire does what is due; more reports that something still is. Deadline is when the next thing is due.
func (t *Table) Expire(now clock.Time) (more bool) {
	t.now = now
	if t.timers.Len() == 0 {
		return false
	}
	_, more = t.timers.Expire(now, expireLimit, t.onTimer)
	return more
}

// Deadline is when Expire must be called again at the latest; clock.Never: not by itself.
func (t *Table) Deadline() clock.Time {
	if t.timers.Len() == 0 {
		return clock.Never
	}
	at, ok := t.timers.Next()
	if !ok {
		return clock.Never
	}
	return at
}

// schedule sees to it that the connection's timer goes off in time. A timer that is early is left: it looks, and starts anew.
func (t *Table) schedule(id ID) {
	c := &t.conns[id]
	t.probeDue(c)
	at := min(c.due, c.ackDue)
	switch {
	case at == clock.Never:
		if c.timer != 0 {
			t.timers.Stop(c.timer)
			c.timer = 0
		}
	case c.timer == 0:
		c.timer = t.timers.Start(at, uint64(id))
	default:
		if moved, ok := t.timers.Reset(c.timer, at); ok {
			c.timer = moved
		} else {
			c.timer = t.timers.Start(at, uint64(id))
		}
	}
}

// probeDue: where the peer's window is shut and nothing is outstanding, only a probe can find out that it opened.
func (t *Table) probeDue(c *Conn) {
	if c.due == clock.Never && c.probes() {
		c.since = t.now
		c.due = t.limited(c, t.now.Add(c.rto(&t.config)))
	}
}

// probes reports whether only the window keeps the connection from sending: due is a probe's.
func (c *Conn) probes() bool { return sends.has(c.state) && c.una == c.max && c.unsent() > 0 }

// limited brings a deadline forward to the user time-out.
func (t *Table) limited(c *Conn, at clock.Time) clock.Time {
	if c.userTimeout == 0 {
		return at
	}
	return min(at, c.since.Add(time.Duration(c.userTimeout)*time.Millisecond))
}

// expired is the timer of a connection.
func (t *Table) expired(data uint64) {
	id := ID(data)
	c := &t.conns[id]
	c.timer = 0
	if c.ackDue <= t.now {
		c.ackDue = clock.Never
		c.flags |= flagAckNow
	}
	if c.due <= t.now && !t.timedOut(id) {
		return
	}
	t.output(id)
}

// timedOut does what is due, and reports whether the connection is still there.
func (t *Table) timedOut(id ID) bool {
	c := &t.conns[id]
	c.due = clock.Never
	switch {
	case c.state == TimeWait, c.state == FinWait2:
		if c.flags&flagOrphan != 0 {
			t.forget(id)
		} else {
			t.closeConn(c)
		}
		return false
	case c.una == c.max && c.unsent() == 0:
		return true
	}
	t.stats.TimeOuts++
	stuck := t.now.Sub(c.since)
	limit := t.config.Tries
	if c.state == SynSent || c.state == SynReceived {
		limit = t.config.ConnectTries
	}
	probing := c.probes()
	// A window that stays shut is no reason to give up by itself, unless nobody is left to wait for it (RFC 9293 section 3.8.6.1).
	endless := probing && c.flags&flagOrphan == 0
	if int(c.tries) >= limit && !endless || c.userTimeout > 0 && stuck >= time.Duration(c.userTimeout)*time.Millisecond {
		t.giveUp(id)
		return false
	}
	c.tries = min(c.tries+1, 254)
	if probing {
		t.probe(c)
		c.due = t.limited(c, t.now.Add(c.rto(&t.config)))
		return true
	}
	c.nxt = c.una // go back
	c.flags = c.flags&^flagTiming | flagRecover
	c.due = t.limited(c, t.now.Add(c.rto(&t.config)))
	return true
}

func (t *Table) giveUp(id ID) {
	if c := &t.conns[id]; synced.has(c.state) {
		t.reset(c)
	}
	t.fail(id, EventTimedOut)
}

// probe asks for an acknowledgement, which says how large the window is.
func (t *Table) probe(c *Conn) {
	s := Segment{Source: c.local, Target: c.remote, Flags: ACK, Seq: c.nxt - 1, Ack: c.rcv, Window: uint32(max(c.rcvEdge.Minus(c.rcv), 0))}
	t.stats.Probes++
	t.transmit(NoID, s)
}
