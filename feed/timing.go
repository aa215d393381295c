package feed

import "math"

// expireHoles moves holes on by time: one whose gap window is over is asked for, or given up if there is no recovery server; one that was asked
// for as often as allowed is given up.
func (c *Channel[R]) expireHoles() {
	r := &c.cfg.Recovery
	for i := range c.holes.h[:c.holes.n] {
		h := &c.holes.h[i]
		switch h.phase {
		case waiting:
			timed, counted := c.cfg.GapTime > 0, c.cfg.GapPackets > 0
			if timed && c.now-h.since >= c.cfg.GapTime || counted && c.arrivals-h.arrivals >= c.cfg.GapPackets ||
				!timed && !counted {
				if r.Attempts > 0 {
					h.phase, h.nextAt = asking, c.now
					c.reportMissed(h.Range, h, CauseDue)
				} else {
					c.reportMissed(h.Range, h, CauseNoRecovery)
					h.phase, h.cause = givenUp, CauseNoRecovery
				}
			}
		case asking:
			if h.attempts >= r.Attempts && c.now >= h.nextAt {
				h.phase, h.cause = givenUp, CauseAttempts
			}
		}
	}
}

// Tick sets the channel's clock and does nothing else; see Config.PollOnly.
func (c *Channel[R]) Tick(now int64) { c.tick(now) }

// Poll sets the channel's clock to now, and ends gap windows and requests that are over by then. Call it when Deadline has come, and then
// Next, Event and Request as after Input. It also raises the alarm for lines that are silent.
func (c *Channel[R]) Poll(now int64) {
	c.tick(now)
	c.due = true
	if c.cfg.LineTimeout == 0 {
		return
	}
	for i := range c.lines[:c.cfg.Lines] {
		l := &c.lines[i]
		if !l.Dead && c.now-c.lastSent(l) >= c.cfg.LineTimeout {
			l.Dead = true
			c.events.put(Event{Time: c.now, Kind: LineDead, Epoch: c.epoch, Line: uint8(i), Seq: c.next, Cause: CauseSilence})
		}
	}
}

// lastSent returns when the line sent its last packet, or, before the first one, when the channel was first given a time.
func (c *Channel[R]) lastSent(l *line) int64 {
	if l.Segments == 0 {
		return c.began
	}
	return l.LastArrival
}

// Deadline returns when Poll or Request has something to do next, or math.MaxInt64 for never. After Poll, and Next, Event and Request until they
// returned false, it is later than the time that they were given.
func (c *Channel[R]) Deadline() int64 {
	at := int64(math.MaxInt64)
	full := c.outstanding() >= c.cfg.Recovery.Outstanding
	for i := range c.holes.h[:c.holes.n] {
		switch h := &c.holes.h[i]; h.phase {
		case waiting:
			if c.cfg.GapTime > 0 {
				at = min(at, h.since+c.cfg.GapTime)
			}
		case asking:
			mayAsk := h.attempts < c.cfg.Recovery.Attempts
			switch {
			case mayAsk && full && !h.isOutstanding(c.now):
				// The next answer, or the end of an outstanding request's time, lets this hole be asked for.
			case mayAsk && c.budgetUsed >= c.cfg.Recovery.Budget:
				at = min(at, max(h.nextAt, c.budgetAt+c.cfg.Recovery.BudgetTime))
			default:
				at = min(at, h.nextAt)
			}
		}
	}
	if c.cfg.LineTimeout > 0 && c.now != math.MinInt64 {
		for i := range c.lines[:c.cfg.Lines] {
			if l := &c.lines[i]; !l.Dead {
				at = min(at, c.lastSent(l)+c.cfg.LineTimeout)
			}
		}
	}
	return at
}

// Request fills r with a range of messages that the caller should ask the recovery server for now. Call it until it returns false. The server's
// answers go to Input, with Line Recovery. A range that does not come in time is requested again, Config.Recovery.Attempts times in all.
func (c *Channel[R]) Request(now int64, r *Request) bool {
	if c.holes.n == 0 {
		return false
	}
	c.tick(now)
	cfg := &c.cfg.Recovery
	if c.now-c.budgetAt >= cfg.BudgetTime {
		c.budgetAt, c.budgetUsed = c.now, 0
	}
	if c.budgetUsed >= cfg.Budget {
		return false
	}
	var next *hole
	for i := range c.holes.h[:c.holes.n] {
		if h := &c.holes.h[i]; h.phase == asking && h.nextAt <= c.now && h.attempts < cfg.Attempts {
			next = h
			break
		}
	}
	if next == nil || c.outstanding() >= cfg.Outstanding {
		return false
	}
	wait := cfg.TimeoutMax
	if shift := next.attempts; shift < 32 && cfg.Timeout<<shift > 0 {
		wait = min(wait, cfg.Timeout<<shift)
	}
	next.attempts++
	next.asked = min(next.To, next.From+min(cfg.MaxMessages, next.To-next.From))
	next.nextAt = c.now + wait
	c.budgetUsed++
	c.stats.Requests++
	*r = Request{Range: Range{next.From, next.asked}, Session: c.session, Attempt: next.attempts}
	return true
}

// outstanding counts the requests whose answers may still come in time.
func (c *Channel[R]) outstanding() (n int) {
	for i := range c.holes.h[:c.holes.n] {
		if c.holes.h[i].isOutstanding(c.now) {
			n++
		}
	}
	return n
}

// Rejected is called when the recovery server has refused a request for good: the messages in the range that are missing are given up, and what
// else is missing is asked for. Next follows. A refusal that may be temporary, such as a quota, need not be reported: the request is repeated
// after its time-out.
func (c *Channel[R]) Rejected(now int64, r Range) {
	c.tick(now)
	c.stats.Rejects++
	for i := 0; i < c.holes.n; i++ {
		h := &c.holes.h[i]
		if h.To <= r.From || r.To <= h.From || h.phase == givenUp {
			continue
		}
		if h.From < r.From && c.holes.split(i, r.From) {
			continue // its rest is the next one
		}
		if r.To < h.To && c.holes.split(i, r.To) {
			rest := &c.holes.h[i+1]
			rest.asked, rest.attempts = rest.From, 0
			if rest.phase == asking {
				rest.nextAt = c.now
			}
		}
		h.phase, h.cause = givenUp, CauseRejected
	}
}

// Resynced is called when the application's data, such as its books, is correct again although messages were given up, because it has loaded a
// snapshot, for example. The state changes from STALE to SYNC.
func (c *Channel[R]) Resynced(now int64) {
	c.tick(now)
	c.stale = false
	if c.state == Stale {
		c.setState(Sync, CauseResynced)
	}
}

// Flush is called when no more packets will come: all holes are given up, and Next delivers the packets that are parked. It panics if Next
// has not returned false before.
func (c *Channel[R]) Flush(now int64) {
	if c.step != idle {
		panic("feed: Flush before Next answered false")
	}
	c.tick(now)
	c.step = deliverParked
}
