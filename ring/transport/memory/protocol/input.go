package protocol

import "github.com/socketxtreme/socketxtreme/internal/clock"

// Input handles a received segment. Its payload stays with the Host, whose Receive is called for the part that is new.
func (t *Table) Input(now clock.Time, s *Segment) {
	t.now = now
	t.stats.In++
	id, ok := t.lookup[pair{s.Target, s.Source}]
	if ok && t.conns[id].state == TimeWait && t.reuses(id, s) {
		ok = false
	}
	switch {
	case !ok:
		t.inputUnknown(s)
	case t.conns[id].state == SynSent:
		t.inputSynSent(id, s)
	default:
		t.inputSynchronized(id, s)
	}
}

// inputUnknown handles a segment of no connection: a SYN for a listener makes one, others are answered with a reset.
func (t *Table) inputUnknown(s *Segment) {
	if s.Flags&RST != 0 {
		return
	}
	l := t.listening(s.Target)
	if l == nil || s.Flags&(SYN|ACK|FIN) != SYN {
		t.stats.NoConnection++
		t.refuse(s)
		return
	}
	if l.waiting >= l.backlog {
		if t.stats.Overflows++; t.config.Overflow == RefuseSYN {
			t.refuse(s)
		}
		return
	}
	l.waiting++
	number := t.numberOf(l)
	id := t.open(s.Target, s.Source)
	c := &t.conns[id]
	c.listener = number
	c.become(SynReceived)
	c.rcv = s.Seq + 1
	c.rcvEdge = c.rcv
	c.sndEdge = c.una.Add(1 + int(s.Window))
	t.output(id)
}

// numberOf is the listener's number, its place in the table plus one.
func (t *Table) numberOf(l *listener) int32 {
	for i := range t.listeners {
		if l == &t.listeners[i] {
			return int32(i) + 1
		}
	}
	return 0
}

// refuse answers a segment with a reset, with the numbers that make its sender accept it (RFC 9293 section 3.5.2).
func (t *Table) refuse(s *Segment) {
	r := Segment{Source: s.Target, Target: s.Source, Flags: RST}
	if s.Flags&ACK != 0 {
		r.Seq = s.Ack
	} else {
		r.Flags |= ACK
		r.Ack = s.Seq.Add(s.span())
	}
	t.stats.ResetsSent++
	t.transmit(NoID, r)
}

// reuses reports whether a SYN begins a new connection in the place of id, which is in TIME-WAIT (RFC 9293 section 3.6.1); then it has ended the
// old one.
func (t *Table) reuses(id ID, s *Segment) bool {
	c := &t.conns[id]
	if s.Flags&(SYN|ACK|RST) != SYN || !c.rcv.Before(s.Seq) {
		return false
	}
	t.end(id)
	return true
}

// inputSynSent handles a segment for a connection in SYN-SENT (RFC 9293 section 3.10.7.3).
func (t *Table) inputSynSent(id ID, s *Segment) {
	c := &t.conns[id]
	acks := s.Flags&ACK != 0 && c.una.Before(s.Ack) && !c.max.Before(s.Ack)
	switch {
	case s.Flags&ACK != 0 && !acks:
		if s.Flags&RST == 0 {
			t.refuse(s)
		}
		return
	case s.Flags&RST != 0:
		if acks {
			t.stats.ResetsTaken++
			t.fail(id, EventRefused)
		}
		return
	case s.Flags&SYN == 0:
		return
	}
	c.rcv = s.Seq + 1
	c.rcvEdge = c.rcv
	if !acks { // both have sent a SYN
		c.become(SynReceived)
		c.sndEdge = c.una.Add(1 + int(s.Window))
		c.nxt = c.una
		c.due = clock.Never
		t.output(id)
		return
	}
	t.progress(c, s)
	c.become(Established)
	c.flags |= flagAckNow
	t.host.Event(id, Event{Kind: EventConnected})
	t.output(id)
}

// inputSynchronized handles a segment in every state after SYN-SENT: reset, acknowledgement, data, FIN, in this order (RFC 9293 section
// 3.10.7.4).
func (t *Table) inputSynchronized(id ID, s *Segment) {
	c := &t.conns[id]
	fits := c.acceptable(s)
	switch {
	case s.Flags&RST != 0:
		switch {
		case !fits && s.Seq != c.rcv:
		case c.state == TimeWait: // both ends were through
			t.stats.ResetsTaken++
			t.end(id)
		default:
			t.stats.ResetsTaken++
			t.fail(id, EventReset)
		}
		return
	case s.Flags&SYN != 0:
		t.repeatedSYN(id, s)
		return
	case s.Flags&ACK == 0:
		return
	case !fits && s.Seq != c.rcv: // an acknowledgement is good also when the window has no room for the data
		t.stats.Duplicate++
		if c.state == TimeWait && s.Flags&FIN != 0 && s.Seq.Add(s.span()) == c.rcv { // the peer has not received our acknowledgement
			c.due = t.now.Add(t.config.TimeWait)
			t.schedule(id)
		}
		t.ackAtFlush(id)
		return
	}
	if !t.acknowledged(id, s) {
		return
	}
	if s.span() > 0 {
		t.inputData(id, s)
		return
	}
	t.output(id)
}

// acceptable reports whether a part of the segment lies in the window (RFC 9293 section 3.10.7.4, first).
func (c *Conn) acceptable(s *Segment) bool {
	n := s.span()
	if n == 0 {
		return !s.Seq.Before(c.rcv) && !c.rcvEdge.Add(1).Before(s.Seq) // 1: behind a FIN, which needs no room
	}
	if s.Flags&FIN != 0 && s.Length == 0 {
		return s.Seq == c.rcv || c.rcv.Before(s.Seq) && s.Seq.Before(c.rcvEdge) // FIN needs no room
	}
	return c.rcv.Before(s.Seq.Add(n)) && s.Seq.Before(c.rcvEdge)
}

// repeatedSYN handles a SYN for a connection that exists: our answer to the first was lost, or it is an old one, or both have sent theirs.
func (t *Table) repeatedSYN(id ID, s *Segment) {
	c := &t.conns[id]
	if c.state != SynReceived || s.Seq+1 != c.rcv {
		t.ackAtFlush(id) // RFC 5961 section 4: the peer answers with a reset if it has no such connection
		return
	}
	if s.Flags&ACK != 0 && s.Ack == c.max && c.una.Before(s.Ack) {
		t.enterEstablished(id, s)
		t.output(id)
		return
	}
	c.nxt = c.una
	t.output(id)
}

// enterEstablished handles the acknowledgement of our SYN in SYN-RECEIVED: EventAccepted for a listener's connection, else EventConnected.
func (t *Table) enterEstablished(id ID, s *Segment) {
	c := &t.conns[id]
	t.progress(c, s)
	c.become(Established)
	e := Event{Kind: EventConnected}
	if c.listener > 0 {
		e = Event{Kind: EventAccepted, Listener: c.listener}
	}
	if c.flags&flagClosed == 0 {
		t.host.Event(id, e)
	}
}

// acknowledged handles the segment's acknowledgement and window; false: the rest of the segment is not to be handled.
func (t *Table) acknowledged(id ID, s *Segment) bool {
	c := &t.conns[id]
	switch {
	case c.max.Before(s.Ack):
		if c.state == SynReceived {
			t.refuse(s)
		} else {
			t.ackAtFlush(id)
		}
		return false
	case c.state == SynReceived:
		if !c.una.Before(s.Ack) {
			return false
		}
		t.enterEstablished(id, s)
	case c.una.Before(s.Ack):
		if n := t.progress(c, s); n > 0 {
			t.host.Event(id, Event{Kind: EventAcknowledged, Bytes: n})
		}
		if c.finSent() && c.una == c.max && !t.finAcknowledged(id) {
			return false
		}
	default:
		t.duplicateAck(c, s)
	}
	if edge := s.Ack.Add(int(s.Window)); c.sndEdge.Before(edge) {
		c.sndEdge = edge
		if c.isProbing() {
			c.due = clock.Never
		}
	}
	if c.isProbing() {
		c.tries = 0 // the peer answers
	}
	return true
}

// progress moves una to the acknowledgement, which also ends a measurement of the round trip and starts the retransmission time-out anew. It
// returns how many bytes of data were acknowledged.
func (t *Table) progress(c *Conn, s *Segment) (bytes int) {
	bytes = s.Ack.Minus(c.una)
	if c.state == SynSent || c.state == SynReceived {
		bytes-- // SYN
		c.sndEdge = s.Ack.Add(int(s.Window))
	}
	if c.finSent() && s.Ack == c.max {
		bytes-- // FIN
	}
	if c.flags&flagTiming != 0 && !s.Ack.Before(c.timed) {
		c.flags &^= flagTiming
		c.measureRTT(t.now.Sub(c.timedAt))
	}
	c.una = s.Ack
	if c.nxt.Before(c.una) {
		c.nxt = c.una
	}
	c.duplicates, c.tries = 0, 0
	c.since = t.now
	c.due = clock.Never
	if c.una != c.max {
		c.due = t.withUserTimeout(c, t.now.Add(c.rto(&t.config)))
	}
	if c.nxt == c.max {
		c.flags &^= flagRecover
	}
	return bytes
}

// aliveTries is the most that Conn.tries is while the peer answers without acknowledging anything, as when it has no buffers: such a
// connection is given up by the user time-out only.
const aliveTries = 3

// duplicateAck counts an acknowledgement that moves nothing: after the third in a row a segment was lost, and sending goes back to una (RFC 5681
// section 3.2).
func (t *Table) duplicateAck(c *Conn, s *Segment) {
	if s.Ack != c.una || s.span() > 0 || c.una == c.max || c.sndEdge.Before(s.Ack.Add(int(s.Window))) {
		return
	}
	if c.flags&flagClosed == 0 {
		c.tries = min(c.tries, aliveTries)
	}
	if c.duplicates++; c.duplicates == 3 && c.flags&flagRecover == 0 {
		c.flags = c.flags&^flagTiming | flagRecover
		c.nxt = c.una
	}
	c.duplicates = min(c.duplicates, 3)
}

// finAcknowledged makes the state's move after the peer has acknowledged our FIN, and reports whether the connection still takes segments.
func (t *Table) finAcknowledged(id ID) bool {
	c := &t.conns[id]
	closed := c.flags&flagClosed != 0
	switch c.state {
	case FinWait1:
		c.become(FinWait2)
		if closed {
			c.due = t.now.Add(t.config.FinWait)
		}
	case Closing:
		t.enterTimeWait(c)
	case LastAck:
		if closed {
			t.forget(id)
			return false
		}
		t.closeConn(c)
		return false
	}
	return true
}

// enterTimeWait begins TIME-WAIT.
func (t *Table) enterTimeWait(c *Conn) {
	c.become(TimeWait)
	c.due = t.now.Add(t.config.TimeWait)
}

// inputData gives the part of the segment's payload that is new and in order to the Host, and handles its FIN.
func (t *Table) inputData(id ID, s *Segment) {
	c := &t.conns[id]
	from := c.rcv.Minus(s.Seq) // so many bytes were received before; below 0: bytes before the segment are missing
	switch {
	case from < 0:
		t.stats.Ahead++
		t.ackAtOnce(id)
		return
	case !receives.has(c.state):
		t.ackAtOnce(id)
		return
	}
	n := int(s.Length) - from
	whole := true
	if room := t.windowEdge(c).Minus(c.rcv); n > room {
		t.stats.BeyondWindow++
		n, whole = max(room, 0), false
	}
	if n > 0 {
		if c.flags&flagClosed != 0 {
			t.abort(id) // nothing will read it (RFC 9293 section 3.10.4, CLOSE)
			return
		}
		if !t.host.Receive(id, from, n) {
			t.stats.NoBuffer++
			t.ackAtOnce(id) // it is not taken, but the peer learns that we are alive
			return
		}
		c.rcv = c.rcv.Add(n)
		c.held += uint32(n)
		if c.owed++; int(c.owed) >= t.config.AckEvery {
			t.ackAtFlush(id)
		} else if c.ackDue == clock.Never {
			c.ackDue = t.now.Add(t.config.DelayedAck)
		}
	} else if s.Length > 0 {
		t.ackAtFlush(id)
	}
	if s.Flags&FIN != 0 && whole && s.Seq.Add(int(s.Length)) == c.rcv {
		t.receivedFIN(id)
		return
	}
	t.output(id)
}

// ackAtOnce sends an acknowledgement for this segment alone, because the peer counts duplicates.
func (t *Table) ackAtOnce(id ID) {
	t.conns[id].flags |= flagAckNow
	t.output(id)
}

// receivedFIN handles the peer's FIN, with all data before it received: the state's move, EventEnded, and an acknowledgement.
func (t *Table) receivedFIN(id ID) {
	c := &t.conns[id]
	c.rcv++
	switch c.state {
	case Established:
		c.become(CloseWait)
	case FinWait1:
		c.become(Closing) // it would be FIN-WAIT-2 if the peer had our FIN
	case FinWait2:
		t.enterTimeWait(c)
	}
	if c.flags&flagClosed == 0 {
		t.host.Event(id, Event{Kind: EventEnded})
	}
	t.ackAtFlush(id)
	t.output(id)
}
