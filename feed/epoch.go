package feed

// classify decides to which epoch the current segment, which line l brought, belongs: it begins a new one, belongs to one that has ended, or
// belongs to the present one. It returns what is to be done with the segment.
func (c *Channel[R]) classify(l *line) step {
	s := &c.cur
	newer := s.Sent != 0 && c.newest != 0 && c.cfg.RestartAfter > 0 && s.Sent-c.newest > c.cfg.RestartAfter &&
		s.Line != Recovery
	switch {
	case c.state == Init:
		if s.Line == Recovery {
			break // nothing was asked for yet
		}
		return c.startChange(CauseFirst)
	case s.Session != c.session: // a late packet of a session that has ended, or a new session; what was asked for is never of a new one
		if s.Line == Recovery || !newer && c.hasEnded(s.Session) {
			l.OldEpoch++
			return returnOnly
		}
		return c.startChange(CauseSession)
	case s.Sent != 0 && s.Sent <= c.older: // the same session, sent before its numbers began anew
		l.OldEpoch++
		return returnOnly
	case s.Reset && s.Line != Recovery && !(c.resetBegan && s.Seq == c.resetSeq && s.Sent == c.resetSent): // not the other line's copy of it
		return c.startChange(CauseReset)
	case newer && (c.end < c.high || s.Count > 0 && c.end == c.high): // sent long after all others, with numbers that have been
		return c.startChange(CauseRestart)
	}
	if c.state == Init {
		return returnOnly
	}
	c.oldRun = 0
	if s.Sent > c.newest && s.Line != Recovery {
		c.newest = s.Sent
	}
	return c.admit(l)
}

// hasEnded reports whether a session is one that has ended. If many packets of it come in a row, without any of the present session, it has not:
// then a stray packet was taken for the begin of the present session.
func (c *Channel[R]) hasEnded(session uint64) bool {
	for _, p := range c.past[:c.pasts] {
		if p == session {
			c.oldRun++
			return c.oldRun < sessionBack
		}
	}
	return false
}

// startChange notes why the current segment begins a new epoch.
func (c *Channel[R]) startChange(why Cause) step {
	c.why = why
	return changeEpoch
}

// beginEpoch begins a new epoch with the current segment. Next calls it when everything of the epoch before was delivered or given up.
func (c *Channel[R]) beginEpoch() {
	s := &c.cur
	c.oldRun = 0
	start := c.cfg.Start
	if c.state != Init {
		start = c.cfg.EpochStart
		c.older = 0
		if s.Session != c.session {
			if c.pasts == sessionKept {
				copy(c.past[:], c.past[1:])
				c.pasts--
			}
			c.past[c.pasts] = c.session
			c.pasts++
		} else {
			c.older = c.newest
		}
	}
	if start == 0 || start > s.Seq {
		start = s.Seq
	}
	for i := range c.lines[:c.cfg.Lines] {
		l := &c.lines[i]
		if c.state != Init && c.high > l.next {
			l.Lost += c.high - l.next
		}
		l.next, l.missed.n = start, 0
	}
	c.epoch++
	c.session = s.Session
	c.first, c.next, c.high = start, start, start
	c.newest = s.Sent
	c.ending, c.stale, c.lost, c.lostCount = false, false, 0, 0
	c.resetBegan, c.resetSeq, c.resetSent = c.why == CauseReset || s.Reset, s.Seq, s.Sent
	c.events.put(Event{Time: c.now, Kind: EpochBegan, Epoch: c.epoch, Seq: start, Line: s.Line, Cause: c.why})
	if c.state != Sync {
		c.setState(Sync, c.why)
	}
}
