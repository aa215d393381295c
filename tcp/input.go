package tcp

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Input takes a received segment whose checksum is right. kept: the table keeps the buffer of the payload, and an event gives it back. Otherwise
// it stays the caller's. The drop is for the counters: a segment may be dropped and answered. The segment itself is the caller's again.
//
// The steps are those of RFC 9293 section 3.10.7, in its order.
func (t *Table) Input(now clock.Time, s *Segment) (kept bool, d wire.Drop) {
	t.now = now
	t.stats.In++
	if s.Group {
		return false, wire.TCPGroup // MUST-57, MUST-63
	}
	if s.Flags&wire.TCPSyn != 0 && s.Flags&(wire.TCPFin|wire.TCPRst) != 0 {
		return false, wire.TCPFlagsBad
	}
	r := t.find(s.Local, s.Remote)
	switch {
	case r == 0:
		return t.arrivesListen(s)
	case r.kind() == refHalfOpen:
		return t.arrivesHalfOpen(r.index(), s)
	case r.kind() == refTimeWait:
		return t.arrivesTimeWait(r.index(), s)
	}
	id := ID(r.index())
	c := t.conn(id)
	if c.has(flagMoving) {
		return false, wire.TCPMoving
	}
	if c.state == SynSent {
		return t.arrivesSynSent(id, c, s)
	}
	return t.arrivesOther(id, c, s)
}

// arrivesOther is RFC 9293 section 3.10.7.4, for all states from SYN-RECEIVED on.
func (t *Table) arrivesOther(id ID, c *conn, s *Segment) (kept bool, d wire.Drop) {
	if c.state == SynReceived && s.Flags&(wire.TCPSyn|wire.TCPAck) == wire.TCPSyn|wire.TCPAck && s.Seq+1 == c.rcvNxt {
		// RFC 9293 figure 8: the other end of a simultaneous open repeats its SYN beside the acknowledgement of ours.
		s.Seq++
		s.Flags &^= wire.TCPSyn
		s.Window >>= c.sndScale // RFC 7323 section 2.2: beside SYN it is not scaled; updateWindow scales it
	}
	// First: the sequence number, after the timestamp (RFC 7323 section 5.3, R1).
	if c.has(flagTS) && t.isOld(c, s) {
		t.stats.Old++
		t.answer(id, c, s)
		return false, wire.TCPOld
	}
	if !acceptable(s.Seq, s.span(), c.rcvNxt, c.rcvAdv) {
		t.stats.Unacceptable++
		if s.Flags&wire.TCPRst == 0 {
			if c.state == SynReceived && s.Flags&wire.TCPSyn != 0 && s.Seq+1 == c.rcvNxt {
				c.flags |= flagSyn // the peer's SYN again: it did not receive ours
				t.wake(id, c)
			} else {
				t.noteLate(id, c, s)
				t.answer(id, c, s)
			}
		}
		return false, wire.TCPUnacceptable
	}
	// R3: the latest timestamp in order of sequence numbers.
	if c.has(flagTS) && s.Options.Has&wire.TCPHasTimestamps != 0 && !c.lastAck.Before(s.Seq) && t.acksPlausibly(c, s) {
		c.tsRecent, c.tsRecentAt = s.Options.TSValue, seconds(t.now)
	}
	// Second: RST (RFC 5961 section 3.2).
	if s.Flags&wire.TCPRst != 0 {
		return false, t.arrivesReset(id, c, s)
	}
	// Fourth: SYN (RFC 5961 section 4.2).
	if s.Flags&wire.TCPSyn != 0 {
		t.challenge(id, c)
		return false, wire.TCPUnacceptable
	}
	// Fifth: ACK.
	if s.Flags&wire.TCPAck == 0 {
		return false, wire.TCPUnacceptable
	}
	if c.state == SynReceived && !t.completeSimultaneous(id, c, s) {
		return false, wire.TCPUnacceptable
	}
	c.received = t.now
	if c.has(flagECN) {
		t.noteCE(c, s)
	}
	finAcked := c.finAcked()
	if !t.acknowledge(id, c, s) {
		return false, wire.TCPUnacceptable
	}
	if !finAcked && c.finAcked() && !t.ourFinAcked(id, c) {
		return false, wire.Accept
	}
	// Sixth: URG. Urgent data is data in line (RFC 6093).
	kept, d = t.text(id, c, s)
	if c.state != Closed && c.ackAt != clock.Never { // Output sets the timer, unless it sends the acknowledgement
		t.wake(id, c)
	}
	return kept, d
}

// acceptable is the test of RFC 9293 section 3.4: four cases.
func acceptable(seq Seq, span int, from, to Seq) bool {
	switch {
	case span == 0 && from == to:
		return seq == from
	case span == 0:
		return seq.in(from, to)
	case from == to:
		// The text is not, but the acknowledgement, and RST, are to be processed (MUST-66).
		return seq == from
	}
	before := from.Minus(seq) // not positive where seq is 2^31 away
	return seq.in(from, to) || (seq+Seq(span)-1).in(from, to) || before > 0 && before < span
}

// acksPlausibly reports whether the acknowledgement is one that acknowledge takes: others must not move the timestamp.
func (t *Table) acksPlausibly(c *conn, s *Segment) bool {
	return s.Flags&wire.TCPAck != 0 && !c.nxt.Before(s.Ack) && s.Ack.Minus(c.una) >= -int(max(c.maxWnd, 1))
}

// pawsIdle is how long a connection is idle until its last timestamp means nothing: RFC 7323 section 5.5.
const pawsIdle = 24 * 24 * 3600 // seconds

func seconds(now clock.Time) uint32 { return uint32(int64(now) / int64(clock.Second)) }

// isOld is PAWS: RFC 7323 section 5.2. A segment without a timestamp is taken, as Linux takes it: some stacks omit it. A reset is never old
// (section 5.3, R1).
func (t *Table) isOld(c *conn, s *Segment) bool {
	return s.Options.Has&wire.TCPHasTimestamps != 0 && int32(s.Options.TSValue-c.tsRecent) < 0 && seconds(t.now)-c.tsRecentAt < pawsIdle &&
		s.Flags&wire.TCPRst == 0
}

// arrivesReset takes a RST whose sequence number is in the window: only RCV.NXT exactly resets, others get a challenge ACK (RFC 5961 section
// 3.2).
func (t *Table) arrivesReset(id ID, c *conn, s *Segment) wire.Drop {
	if s.Seq != c.rcvNxt {
		t.challenge(id, c)
		return wire.TCPUnacceptable
	}
	t.stats.ResetsTaken++
	if c.state == SynReceived {
		t.fail(id, c, ReasonRefused)
	} else {
		t.fail(id, c, ReasonReset)
	}
	return wire.Accept
}

// answer sends an acknowledgement for a segment that is not acceptable (RFC 9293 section 3.10.7.4, first step). Data without SYN is always
// answered: its sender may have lost our acknowledgement, and ours carries no data, so that the sender does not answer it. Other segments are
// answered within the limit of challenge, so that two ends cannot answer each other for ever.
func (t *Table) answer(id ID, c *conn, s *Segment) {
	if s.Payload.Length == 0 || s.Flags&wire.TCPSyn != 0 {
		t.challenge(id, c)
		return
	}
	c.flags |= flagAckNow
	t.wake(id, c)
}

// challenge sends a challenge ACK, within the limit of the connection: RFC 5961 section 7. A limit for all connections together would tell an
// attacker about others (CVE-2016-5696).
func (t *Table) challenge(id ID, c *conn) {
	if c.challenged != 0 && t.now.Sub(c.challenged) < t.config.ChallengeInterval {
		return
	}
	c.challenged = t.now
	t.stats.Challenges++
	c.flags |= flagAckNow
	t.wake(id, c)
}

// noteLate notes data that comes wholly before the window, for a D-SACK.
func (t *Table) noteLate(id ID, c *conn, s *Segment) {
	if end := s.Seq + Seq(s.Payload.Length); s.Payload.Length > 0 && s.Seq.Before(c.rcvNxt) && receives.has(c.state) {
		t.stats.Duplicate++
		t.noteDuplicate(id, c, s.Seq, minSeq(end, c.rcvNxt))
	}
}

// noteCE processes the receiver's part of ECN: a packet marked CE has ECE set in each acknowledgement until CWR comes (RFC 3168 section
// 6.1.3).
func (t *Table) noteCE(c *conn, s *Segment) {
	if s.Flags&wire.TCPCwr != 0 {
		c.flags &^= flagEcho
	}
	if s.ECN == CE && s.Payload.Length > 0 {
		c.flags |= flagEcho | flagAckNow
	}
}

// ourFinAcked is RFC 9293 section 3.10.7.4, fifth step, for the states in which FIN is out. It reports whether the connection is still there.
func (t *Table) ourFinAcked(id ID, c *conn) bool {
	switch c.state {
	case FinWait1:
		c.become(FinWait2)
		t.armLife(c)
	case Closing:
		t.enterTimeWait(id, c)
		return false
	case LastAck:
		t.ended(id, c)
		return false
	}
	return true
}

// ended is the orderly end of a connection. One that the application has closed is forgotten.
func (t *Table) ended(id ID, c *conn) {
	t.closeConn(id, c)
	if c.has(flagAppClosed) {
		t.forget(id, c)
	}
}
