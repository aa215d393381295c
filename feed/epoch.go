package feed

// classify decides which epoch the segment belongs to.
func (c *Channel[R]) classify(l *line) step {
	s := &c.cur
	newer := s.Sent != 0 && c.newest != 0 && c.cfg.RestartAfter > 0 && s.Sent-c.newest > c.cfg.RestartAfter &&
		s.Line != Recovery
	switch {
	case c.state == Init:
		if s.Line == Recovery {
			break // an answer without a question
		}
		return c.change(CauseFirst)
	case s.Session != c.session:
		if s.Line == Recovery || !newer && c.ended(s.Session) {
			l.OldEpoch++
			return spent
		}
		return c.change(CauseSession)
	case s.Sent != 0 && s.Sent <= c.older:
		l.OldEpoch++
		return spent
	case s.Reset && s.Line != Recovery && !(c.resetBegan && s.Seq == c.resetSeq && s.Sent == c.resetSent):
		return c.change(CauseReset)
	case newer && (c.end < c.high || s.Count > 0 && c.end == c.high):
		return c.change(CauseRestart)
	}
	if c.state == Init {
		return spent
	}
	c.oldRun = 0
	if s.Sent > c.newest && s.Line != Recovery {
		c.newest = s.Sent
	}
	return c.admit(l)
}

// ended reports whether a session is one that has ended. After a long run of its packets without any of the present
// session it is not: then a stray packet of another session had been believed.
func (c *Channel[R]) ended(session uint64) bool {
	for _, p := range c.past[:c.pasts] {
		if p == session {
			c.oldRun++
			return c.oldRun < sessionBack
		}
	}
	return false
}

func (c *Channel[R]) change(why Cause) step {
	c.why = why
	return changing
}

// begin starts a new epoch with the current segment.
func (c *Channel[R]) begin() {
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
	c.ending, c.stale, c.lost, c.givens = false, false, 0, 0
	c.resetBegan, c.resetSeq, c.resetSent = c.why == CauseReset || s.Reset, s.Seq, s.Sent
	c.events.put(Event{Time: c.now, Kind: EpochBegan, Epoch: c.epoch, Seq: start, Line: s.Line, Cause: c.why})
	if c.state != Sync {
		c.to(Sync, c.why)
	}
}
