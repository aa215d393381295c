package protocol

import (
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// expireLimit bounds the deadlines of one Expire.
const expireLimit = 256

// Expire does what is due, up to expireLimit deadlines; more: others are due.
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

// schedule sets the connection's timer to the earlier one of due and ackDue, and stops it when there is neither. Each change of these ends
// with it.
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

// probeDue sets the deadline of a probe if the peer's window is shut and nothing is outstanding: only its answer says that the window opened.
func (t *Table) probeDue(c *Conn) {
	if c.due == clock.Never && c.isProbing() {
		c.since = t.now
		c.due = t.withUserTimeout(c, t.now.Add(c.rto(&t.config)))
	}
}

// isProbing reports whether the connection has data to send and nothing outstanding: only the peer's window holds the data back. Its deadline
// due is then that of a window probe (RFC 9293 section 3.8.6.1), not of a retransmission.
func (c *Conn) isProbing() bool { return sends.has(c.state) && c.una == c.max && c.unsent() > 0 }

// withUserTimeout returns the deadline, or the end of the user time-out if that is earlier.
func (t *Table) withUserTimeout(c *Conn, at clock.Time) clock.Time {
	if c.userTimeout == 0 {
		return at
	}
	return min(at, c.since.Add(time.Duration(c.userTimeout)*time.Millisecond))
}

// timerExpired is called by the timer wheel for connection data: an acknowledgement is sent, or the deadline is handled, whichever is due.
func (t *Table) timerExpired(data uint64) {
	id := ID(data)
	c := &t.conns[id]
	c.timer = 0
	if c.ackDue <= t.now {
		c.ackDue = clock.Never
		c.flags |= flagAckNow
	}
	if c.due <= t.now && !t.onDeadline(id) {
		return
	}
	t.output(id)
}

// onDeadline handles the deadline due: the end of a waiting state, a retransmission, a probe, or giving up. It reports whether the connection
// is still alive.
func (t *Table) onDeadline(id ID) bool {
	c := &t.conns[id]
	c.due = clock.Never
	switch {
	case c.state == TimeWait, c.state == FinWait2:
		t.end(id)
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
	probing := c.isProbing()
	// A window that stays shut is no reason to give up, unless the connection was closed (RFC 9293 section 3.8.6.1).
	endless := probing && c.flags&flagClosed == 0
	if int(c.tries) >= limit && !endless || c.userTimeout > 0 && stuck >= time.Duration(c.userTimeout)*time.Millisecond {
		t.giveUp(id)
		return false
	}
	c.tries = min(c.tries+1, 254)
	if probing {
		t.probe(c)
		c.due = t.withUserTimeout(c, t.now.Add(c.rto(&t.config)))
		return true
	}
	c.nxt = c.una // go back
	c.flags = c.flags&^flagTiming | flagRecover
	c.due = t.withUserTimeout(c, t.now.Add(c.rto(&t.config)))
	return true
}

// giveUp ends a connection whose peer does not answer: a reset if it knows the connection, and EventTimedOut.
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
