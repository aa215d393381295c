package protocol

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// output sends all segments that the connection may send now, until the link is full, and schedules its timer.
func (t *Table) output(id ID) {
	for {
		c := &t.conns[id]
		s, ok := t.nextSegment(id, c)
		if !ok {
			break
		}
		switch t.transmit(id, s) {
		case Full:
			t.addBlocked(id, c)
			t.schedule(id)
			return
		case Held:
			t.stats.Held++
			// A copy of these bytes is still held by the link, which may yet send it. They count as sent again; the timer repeats them.
			c.nxt = c.max
			if c.due == clock.Never {
				c.due = t.now.Add(c.rto(&t.config))
			}
			t.schedule(id)
			return
		}
		t.noteSent(c, &t.out)
	}
	t.schedule(id)
}

// nextSegment returns the next segment to send: SYN, data, FIN, or an acknowledgement that is due; ok is false when there is none.
func (t *Table) nextSegment(id ID, c *Conn) (s Segment, ok bool) {
	s = Segment{Source: c.local, Target: c.remote, Seq: c.nxt}
	switch {
	case c.state == SynSent || c.state == SynReceived:
		if c.nxt == c.una {
			s.Flags, ok = SYN, true
		}
	case sends.has(c.state):
		if n := t.sendable(c); n > 0 {
			n = min(n, t.host.Piece(id, c.nxt, n))
			s.Length, ok = uint16(n), true
		}
		if c.flags&flagFin != 0 && c.nxt.Add(int(s.Length)) == c.end {
			s.Flags, ok = FIN, true
		}
	}
	if !ok {
		if c.flags&flagAckNow == 0 {
			return s, false
		}
		s.Seq = c.max // also while it goes back after a loss: a number that was acknowledged would be taken for an old segment
	}
	if c.state != SynSent {
		s.Flags |= ACK
		s.Ack = c.rcv
	}
	s.Window = uint32(max(t.windowEdge(c).Minus(c.rcv), 0))
	return s, true
}

// sendable is how many bytes the next segment may have. A small one waits while others are outstanding and more is queued than the window
// takes (RFC 9293 section 3.8.6.2.1).
func (t *Table) sendable(c *Conn) int {
	left := c.unsent()
	n := min(left, c.sndEdge.Minus(c.nxt), t.config.MSS)
	if n > 0 && n < left && n < t.config.MSS && c.nxt != c.una {
		return 0
	}
	return max(n, 0)
}

// noteSent updates the connection for a segment that the link took: its numbers, deadlines, and the move that a FIN makes.
func (t *Table) noteSent(c *Conn, s *Segment) {
	c.flags &^= flagAckNow | flagOwing
	c.ackDue = clock.Never
	c.owed = 0
	c.rcvEdge = c.rcv.Add(int(s.Window))
	n := s.span()
	if n == 0 {
		return
	}
	if c.nxt.Before(c.max) {
		t.stats.Retransmitted++
		c.flags &^= flagTiming // whose acknowledgement is it? (Karn; RFC 6298 section 3)
	} else if c.flags&flagTiming == 0 {
		c.flags |= flagTiming
		c.timed, c.timedAt = s.Seq.Add(n), t.now
	}
	if c.una == c.max {
		c.since = t.now
		c.due = clock.Never // of a probe
	}
	c.nxt = c.nxt.Add(n)
	if c.max.Before(c.nxt) {
		c.max = c.nxt
	}
	if c.due == clock.Never {
		c.due = t.withUserTimeout(c, t.now.Add(c.rto(&t.config)))
	}
	if s.Flags&FIN != 0 {
		switch c.state {
		case Established:
			c.become(FinWait1)
		case CloseWait:
			c.become(LastAck)
		}
	}
}

// transmit gives a segment to the Host, and counts it if the link took it. id is NoID for one that no connection sends.
func (t *Table) transmit(id ID, s Segment) Outcome {
	t.out = s
	o := t.host.Transmit(id, &t.out)
	if o == Sent {
		t.stats.Out++
	}
	return o
}

// ackAtFlush makes the connection acknowledge with the next Flush, unless data that the application sends before carries the acknowledgement.
func (t *Table) ackAtFlush(id ID) {
	c := &t.conns[id]
	if c.flags&flagOwing == 0 {
		c.flags |= flagOwing
		t.owing = append(t.owing, id)
	}
}

// addBlocked puts the connection into the list of those that Resume lets send.
func (t *Table) addBlocked(id ID, c *Conn) {
	if c.flags&flagBlocked == 0 {
		c.flags |= flagBlocked
		t.blocked = append(t.blocked, id)
	}
}

// Flush sends the acknowledgements and window updates that are due since the last Flush and that no data has carried.
func (t *Table) Flush(now clock.Time) {
	t.now = now
	for _, id := range t.drain(&t.owing) {
		if c := &t.conns[id]; c.flags&flagOwing != 0 {
			c.flags = c.flags&^flagOwing | flagAckNow
			t.output(id)
		}
	}
}

// Resume is called when the link may have room again: the connections that found it full send on.
func (t *Table) Resume(now clock.Time) {
	t.now = now
	for _, id := range t.drain(&t.blocked) {
		if c := &t.conns[id]; c.flags&flagBlocked != 0 {
			c.flags &^= flagBlocked
			t.output(id)
		}
	}
}

// drain empties a list and returns what was in it, valid until the next drain. Connections may come into the list again meanwhile.
func (t *Table) drain(list *[]ID) []ID {
	t.batch = append(t.batch[:0], *list...)
	*list = (*list)[:0]
	return t.batch
}

// Owing reports whether Flush has something to send.
func (t *Table) Owing() bool { return len(t.owing) > 0 }

// Blocked reports whether Resume has something to send: a connection found the link full.
func (t *Table) Blocked() bool { return len(t.blocked) > 0 }
