package tcp

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// A connection has three deadlines and one entry in the wheel, at the earliest of them or before: a deadline that moves later is only stored,
// and an entry that is early is started anew.
//
//	rtxAt    retransmission, loss probe, reordering, window probe, held data: rtxKind says which
//	ackAt    a delayed acknowledgement
//	lifeAt   keepalive, the end of FIN-WAIT-2, linger, the end of a move: the state says which

// expireLimit bounds the deadlines of one Expire.
const expireLimit = 256

// Expire does what is due; more reports that something still is, because one call does a bounded amount of work.
func (t *Table) Expire(now clock.Time) (more bool) {
	t.now = now
	more = t.halfOpen.expire(t)
	more = t.timeWaits.expire(t) || more
	if t.wheel.Len() > 0 {
		_, again := t.wheel.Expire(now, expireLimit, t.onTimer)
		more = more || again
	}
	return more
}

// Deadline is when Expire must be called again at the latest; clock.Never: not by itself.
func (t *Table) Deadline() clock.Time {
	at := min(t.halfOpen.deadline(), t.timeWaits.deadline())
	if t.wheel.Len() > 0 {
		if next, ok := t.wheel.Next(); ok {
			at = min(at, next)
		}
	}
	return at
}

// schedule sees to it that the wheel's entry is at the earliest deadline or before.
func (t *Table) schedule(id ID, c *conn) {
	if c.state == Closed {
		return
	}
	if !c.has(flagMoving) {
		t.armHeld(c)
	}
	at := min(c.rtxAt, c.ackAt, c.lifeAt)
	switch {
	case at == clock.Never:
		if c.timer != 0 {
			t.wheel.Stop(c.timer)
			c.timer = 0
		}
	case c.timer == 0:
		c.timer = t.wheel.Start(at, uint64(id))
	default:
		if moved, ok := t.wheel.Reset(c.timer, at); ok {
			c.timer = moved
		} else {
			c.timer = t.wheel.Start(at, uint64(id))
		}
	}
}

// expired is called by the wheel when the entry of a connection is due; data is the connection's ID. It does what is due of the three deadlines
// and starts a new entry.
func (t *Table) expired(data uint64) {
	id := ID(data)
	c := t.conn(id)
	c.timer = 0
	if c.ackAt <= t.now {
		c.ackAt = clock.Never
		c.flags = c.flags&^flagAnswers | flagAckNow
	}
	if c.lifeAt <= t.now && !t.lifeEnds(id, c) {
		return
	}
	if c.rtxAt <= t.now && !t.retransmitDue(id, c) {
		return
	}
	t.wake(id, c)
	t.schedule(id, c)
}

// armTimeout starts the retransmission timer: RFC 6298 (5.1), (5.3), (5.5).
func (t *Table) armTimeout(c *conn) {
	c.rtxKind = rtxTimeout
	c.rtxAt = t.limited(c, t.now.Add(t.backedOff(c)))
}

// limited is a deadline, or the end of Settings.UserTimeout if that is earlier.
func (t *Table) limited(c *conn, at clock.Time) clock.Time {
	if u := t.settingsOf(c).UserTimeout; u > 0 {
		return min(at, c.stuck.Add(u))
	}
	return at
}

// armAfterSend sets the timer after new data was sent: a loss probe if one may be scheduled, else the retransmission timer unless it runs
// already (RFC 6298 (5.1)). The timer of RACK stays.
func (t *Table) armAfterSend(c *conn, snd *sender) {
	switch {
	case t.awaitsReordering(c):
	case t.mayProbeLoss(c, snd):
		t.armLossProbe(c)
	case c.rtxKind != rtxTimeout || c.rtxAt == clock.Never:
		t.armTimeout(c)
	}
}

// awaitsReordering reports whether the timer of RACK runs: it comes before the others.
func (t *Table) awaitsReordering(c *conn) bool {
	return c.rtxKind == rtxReorder && c.rtxAt > t.now && c.rtxAt != clock.Never
}

// armAfterAck sets the timer after new data was acknowledged: none when nothing is in flight (RFC 6298 (5.2)), else it starts anew (5.3), as a
// loss probe where one may be scheduled (RFC 8985 section 7.2).
func (t *Table) armAfterAck(c *conn) {
	switch {
	case c.flight() == 0:
		if c.rtxKind != rtxPersist && c.rtxKind != rtxHeld { // armHeld ends those
			c.rtxKind, c.rtxAt = rtxNone, clock.Never
		}
	case c.sender != 0 && t.mayProbeLoss(c, t.senders[c.sender-1]):
		t.armLossProbe(c)
	default:
		t.armTimeout(c)
	}
}

// heldTime is how long data may be held for more: as long as Linux holds it under TCP_CORK.
const heldTime = 200 * clock.Millisecond

// armHeld sets or ends the timer for data that waits while nothing is in flight, so that no acknowledgement will come. Either the peer's window
// is shut, and only a probe can find out that it opened (RFC 9293 section 3.8.6.1); or a segment that is not full waits for more.
func (t *Table) armHeld(c *conn) {
	if !sends.has(c.state) || c.flight() > 0 || c.unsent() == 0 && (!c.has(flagFin) || c.has(flagFinSent)) {
		if c.rtxKind == rtxPersist || c.rtxKind == rtxHeld {
			c.rtxKind, c.rtxAt = rtxNone, clock.Never
		}
		return
	}
	kind := rtxHeld
	if int(c.wnd) < min(max(c.unsent(), 1), c.payloadLimit()) {
		kind = rtxPersist
	}
	if c.rtxKind == kind && c.rtxAt != clock.Never {
		return
	}
	if c.rtxKind != kind {
		c.stuck, c.tries = t.now, 0
	}
	c.rtxKind = kind
	if kind == rtxHeld {
		c.rtxAt = t.now.Add(heldTime)
	} else {
		c.rtxAt = t.limited(c, t.now.Add(t.backedOff(c)))
	}
}

// retransmitDue does what rtxAt is for, and reports whether the connection is still there.
func (t *Table) retransmitDue(id ID, c *conn) bool {
	kind := c.rtxKind
	c.rtxKind, c.rtxAt = rtxNone, clock.Never
	switch kind {
	case rtxTimeout:
		return t.timedOut(id, c)
	case rtxLossProbe:
		c.flags |= flagLossProbe
		t.armTimeout(c)
	case rtxReorder:
		snd := t.senders[c.sender-1]
		t.armTimeout(c)
		before := snd.lost
		t.detectLoss(c, snd)
		if c.phase == phaseRecovery && snd.lost > before {
			t.reduceRate(c, snd, progress{lostMore: true})
		}
	case rtxPersist:
		return t.persist(id, c)
	case rtxHeld:
		c.flags |= flagPush
	}
	return true
}

// persist probes a window that is shut: RFC 9293 section 3.8.6.1, MUST-35 to MUST-37. The connection goes on for as long as the peer answers.
func (t *Table) persist(id ID, c *conn) bool {
	s := t.settingsOf(c)
	if s.UserTimeout > 0 && t.now.Sub(c.stuck) >= s.UserTimeout {
		return t.giveUp(id, c, ReasonTimeout)
	}
	// Without a single answer it is as dead as one whose data is not acknowledged.
	if c.probes++; int(c.probes) > int(s.Retries) {
		return t.giveUp(id, c, ReasonTimeout)
	}
	if c.wnd > 0 {
		c.flags |= flagPush // the window is small, and stays so: what fits goes (section 3.8.6.2.1, the override time-out)
	} else {
		c.flags |= flagProbe
		t.stats.WindowProbes++
	}
	c.tries = min(c.tries+1, 30)
	c.rtxKind = rtxPersist
	c.rtxAt = t.limited(c, t.now.Add(t.backedOff(c)))
	return true
}

// timedOut is the retransmission time-out: RFC 6298 (5.4) to (5.7). It reports whether the connection is still there.
func (t *Table) timedOut(id ID, c *conn) bool {
	s := t.settingsOf(c)
	t.stats.TimeOuts++
	limit := s.Retries
	opening := c.state == SynSent || c.state == SynReceived
	if opening {
		limit = s.SynRetries
	}
	if c.tries >= limit && !t.shutAndAlive(c) || s.UserTimeout > 0 && t.now.Sub(c.stuck) >= s.UserTimeout {
		return t.giveUp(id, c, ReasonTimeout)
	}
	if c.tries = min(c.tries+1, limit); c.tries == warnAfter {
		t.emit(id, c, Event{Kind: EventWarning, Reason: ReasonNextHop})
	}
	if opening {
		c.flags |= flagSyn | flagSYNLost
		t.armTimeout(c)
		return true
	}
	if c.flight() == 0 {
		return true
	}
	t.armTimeout(c)
	t.enterLoss(c, t.senders[c.sender-1])
	return true
}

// shutAndAlive reports whether the peer has answered the last retransmission with a window of zero: RFC 9293 MUST-37 holds for data that was in
// flight when the window shut, too.
func (t *Table) shutAndAlive(c *conn) bool {
	return sends.has(c.state) && c.wnd == 0 && c.flight() > 0 && c.received >= t.senders[c.sender-1].flight.at(0).at
}

// warnAfter is R1 of RFC 9293 section 3.8.3 (MUST-20).
const warnAfter = 3

// giveUp is the end of a connection whose peer does not answer. A reset is sent, in case that it arrives.
func (t *Table) giveUp(id ID, c *conn, why Reason) bool {
	if synchronized.has(c.state) {
		t.sendReset(c)
	}
	t.fail(id, c, why)
	return false
}

// sendReset queues a reset for the peer of a connection.
func (t *Table) sendReset(c *conn) {
	settings := t.settingsOf(c)
	t.sendControl(Segment{Local: c.local, Remote: c.remote, Seq: c.nxt, Ack: c.rcvNxt, Flags: wireRstAck, User: c.user,
		TTL: settings.TTL, TOS: settings.TOS})
}

// armLife sets lifeAt: the end of FIN-WAIT-2 or of the linger time where the application has closed the connection (flagAppClosed), else the
// next keepalive probe (RFC 9293 section 3.8.4).
func (t *Table) armLife(c *conn) {
	s := t.settingsOf(c)
	switch {
	case c.has(flagAppClosed) && c.state == FinWait2:
		c.lifeAt = t.now.Add(t.config.FinWait2)
	case c.has(flagAppClosed) && s.Linger > 0:
		c.lifeAt = t.now.Add(s.Linger)
	case !c.has(flagAppClosed) && s.KeepAlive && set(Established, FinWait2, CloseWait).has(c.state):
		c.lifeAt = max(c.received, c.sent).Add(s.KeepIdle)
	default:
		c.lifeAt = clock.Never
	}
}

// lifeEnds does what lifeAt is for, and reports whether the connection is still there.
func (t *Table) lifeEnds(id ID, c *conn) bool {
	s := t.settingsOf(c)
	c.lifeAt = clock.Never
	switch {
	case c.has(flagMoving):
		return t.quietEnds(id, c)
	case c.has(flagAppClosed) && c.state == FinWait2:
		t.fail(id, c, ReasonTimeout)
		return false
	case c.has(flagAppClosed):
		return t.giveUp(id, c, ReasonLinger)
	case !s.KeepAlive:
		return true
	}
	// RFC 9293 section 3.8.4. Data in flight is proof enough: its time-out finds out (MUST-26).
	last := max(c.received, c.sent)
	if idle := t.now.Sub(last); c.flight() > 0 || c.unsent() > 0 || idle < s.KeepIdle && c.probes == 0 {
		c.lifeAt = max(last.Add(s.KeepIdle), t.now.Add(s.KeepInterval))
		if c.flight() == 0 && c.unsent() == 0 {
			c.lifeAt = last.Add(s.KeepIdle)
		}
		return true
	}
	if c.probes >= s.KeepCount { // one that is lost kills nothing (MUST-27)
		return t.giveUp(id, c, ReasonKeepAlive)
	}
	c.probes++
	t.stats.KeepAlives++
	c.flags |= flagProbe
	c.lifeAt = t.now.Add(s.KeepInterval)
	return true
}
