package tcp

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// quickSegments are acknowledged at once at the start of a connection, while the peer's window grows with each acknowledgement.
const quickSegments = 16

// text takes the data and the FIN of an acceptable segment: RFC 9293 section 3.10.7.4, seventh and eighth step. It reports whether the buffer is
// kept.
func (t *Table) text(id ID, c *conn, s *Segment) (kept bool, d wire.Drop) {
	if s.span() == 0 {
		return false, wire.Accept
	}
	if !receives.has(c.state) {
		c.flags |= flagAckNow // the peer has sent FIN before: what comes now came before, too
		t.wake(id, c)
		return false, wire.Accept
	}
	seq, p, fin := s.Seq, s.Payload, s.Flags&wire.TCPFin != 0
	if n := c.rcvNxt.Minus(seq); n > 0 {
		t.stats.Duplicate++
		t.noteDuplicate(id, c, seq, minSeq(c.rcvNxt, seq+Seq(p.Length)))
		if n > int(p.Length) || n == int(p.Length) && !fin {
			c.flags |= flagAckNow
			t.wake(id, c)
			return false, wire.Accept
		}
		seq, p = c.rcvNxt, p.cut(n)
	}
	if over := (seq + Seq(p.Length)).Minus(c.rcvAdv); over > 0 {
		c.flags |= flagAckNow
		p, fin = p.first(max(int(p.Length)-over, 0)), false // FIN beyond the window is not taken
	}
	if c.has(flagAppClosed) && p.Length > 0 {
		// Nobody is there to read it: RFC 9293 section 3.6.1, RFC 2525 section 2.17.
		t.sendReset(c)
		t.fail(id, c, ReasonReset)
		return false, wire.Accept
	}
	if fin {
		// The first FIN says where the stream ends; another one elsewhere is none.
		if end := seq + Seq(p.Length); !c.has(flagFinReceived) || end == c.fin {
			c.flags |= flagFinReceived
			c.fin = end
		}
	}
	t.wake(id, c)
	if c.has(flagFinReceived) && c.fin.Before(seq+Seq(p.Length)) {
		c.flags |= flagAckNow
		return false, wire.TCPUnacceptable // data behind the end
	}
	if seq != c.rcvNxt {
		c.flags |= flagAckNow // RFC 5681 section 4.2
		if p.Length == 0 {
			return false, wire.Accept
		}
		t.stats.OutOfOrder++
		return t.keep(id, c, seq, p)
	}
	if p.Length > 0 {
		kept = true
		t.deliver(id, c, p)
		t.drain(id, c)
		if s.Flags&wire.TCPPsh != 0 {
			c.flags |= flagPushed
		}
	}
	t.ackPolicy(c, p)
	if c.has(flagFinReceived) && c.fin == c.rcvNxt {
		t.endOfStream(id, c)
	}
	return kept, wire.Accept
}

// deliver hands data out in order.
func (t *Table) deliver(id ID, c *conn, p Payload) {
	c.rcvNxt += Seq(p.Length)
	c.held += p.Length
	c.unacked += p.Length
	t.emit(id, c, Event{Kind: EventData, Payload: p})
}

// ackPolicy says when data in order is acknowledged: RFC 9293 section 3.8.6.3, RFC 5681 section 4.2.
func (t *Table) ackPolicy(c *conn, p Payload) {
	s := t.settingsOf(c)
	full := c.fullSegment()
	if int(p.Length) >= full {
		c.full = uint8(min(int(c.full)+int(p.Length)/full, 255))
	}
	switch {
	case s.QuickAck && (s.QuickAckMost == 0 || p.Length <= s.QuickAckMost), c.reassembly != 0, c.has(flagFinReceived), c.full >= s.AckEvery,
		int(c.unacked) >= int(s.AckEvery)*full, // RFC 5681 section 4.2: of small segments as many bytes
		s.AckBytes > 0 && c.unacked >= s.AckBytes:
		c.flags |= flagAckNow
	case c.quick > 0:
		c.quick--
		c.flags |= flagAckNow
	case c.ackAt == clock.Never && c.unacked > 0:
		c.ackAt = t.now.Add(s.DelayedAck)
	}
}

// endOfStream is the peer's FIN, with all data before it: RFC 9293 section 3.10.7.4, eighth step.
func (t *Table) endOfStream(id ID, c *conn) {
	c.rcvNxt++
	c.rcvAdv = maxSeq(c.rcvAdv, c.rcvNxt)
	c.flags |= flagAckNow
	if !c.has(flagAppClosed) {
		t.emit(id, c, Event{Kind: EventEnd})
	}
	switch c.state {
	case Established:
		c.become(CloseWait)
	case FinWait1: // its FIN is not acknowledged, or the state were FIN-WAIT-2
		c.become(Closing)
	case FinWait2:
		t.enterTimeWait(id, c)
	}
}

// Credit says that n bytes of data that EventData had reported are released: the window opens by as much.
func (t *Table) Credit(now clock.Time, id ID, n int) {
	c := t.get(id)
	if c == nil || n <= 0 {
		return
	}
	t.now = now
	c.held -= uint32(min(n, int(c.held)))
	if !receives.has(c.state) {
		return
	}
	// All that the peer has pushed is read, and the application is not one that answers: the acknowledgement waits for nothing. A peer whose
	// congestion window counts segments would wait for it after a few small ones. Linux does so too (tcp_cleanup_rbuf).
	if c.held == 0 && c.unacked > 0 && c.flags&(flagPushed|flagAnswers) == flagPushed {
		c.flags |= flagAckNow
		t.wake(id, c)
	}
	// An acknowledgement announces the new edge when it moves by a step and the peer has used half of what it was offered: each smaller step
	// would be a segment of its own.
	s := t.settingsOf(c)
	room := min(s.ReceiveBuffer-int(c.held), 0xffff<<c.rcvScale)
	known := c.rcvAdv.Minus(c.rcvNxt)
	if c.rcvNxt.Add(room).Minus(c.rcvAdv) >= windowStep(c, s) && 2*known <= room {
		c.flags |= flagAckNow
		t.wake(id, c)
	}
}
