package tcp

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/tcp/congestion"
)

// acknowledged is what one acknowledgement has shown; acknowledge fills it in and passes it to loss recovery.
type acknowledged struct {
	bytes     int            // of the peer's cumulative acknowledgement
	delivered int            // these, and those newly SACKed
	rtt       clock.Duration // with hasRTT
	hasRTT    bool
	original  bool // something of the episode that was sent once: acknowledged or SACKed now
	dsack     bool
	dsackTo   Seq
}

// acknowledge processes the acknowledgement of a segment in a synchronized state: RFC 9293 section 3.10.7.4, fifth step. It reports whether
// the segment's text is to be looked at.
func (t *Table) acknowledge(id ID, c *conn, s *Segment) bool {
	switch {
	case c.nxt.Before(s.Ack): // acknowledges what was not sent
		t.challenge(id, c)
		return false
	case s.Ack.Minus(c.una) < -int(max(c.maxWnd, 1)): // RFC 5961 section 5.2
		t.challenge(id, c)
		return false
	case s.Ack.Before(c.una):
		return true // a duplicate that is late
	}
	if c.probes > 0 {
		c.probes = 0
		if !c.has(flagAppClosed) { // of a connection that was closed lifeAt is a limit, which answers do not move
			t.armLife(c)  // an answered keepalive probe begins the idle time anew
			t.wake(id, c) // Output sets the timer
		}
	}
	una, wnd := c.una, c.wnd
	t.updateWindow(c, s)
	if c.sender == 0 {
		if wnd != c.wnd {
			t.wake(id, c)
		}
		return true
	}
	if wnd == 0 && c.wnd > 0 && c.flight() > 0 && c.tries > 0 {
		c.tries = 0 // the time-outs were the window's
		t.armTimeout(c)
	}
	snd := t.senders[c.sender-1]
	flightBefore, open := c.flight(), c.phase != phaseRecovery
	lostBefore := snd.lost
	var a acknowledged
	if c.has(flagSACK) && s.Options.Has&wire.TCPHasSACK != 0 {
		t.takeSACK(c, snd, s, &a)
	}
	t.advance(id, c, snd, s.Ack, &a)
	if a.hasRTT {
		c.measured(a.rtt)
	}
	duplicate := s.Ack == una && flightBefore > 0 && s.Payload.Length == 0 && s.Flags&(wire.TCPSyn|wire.TCPFin) == 0 && c.wnd == wnd
	if a.bytes > 0 {
		c.stuck = t.now
		c.tries = 0
	}
	t.recoverFrom(c, snd, s, &a, duplicate, lostBefore)
	t.probeAnswered(c, snd, s.Ack, a.dsack, duplicate && s.Options.Has&wire.TCPHasSACK == 0)
	t.reactToECE(c, snd, s, flightBefore)
	// A window that did not limit does not grow (RFC 9293 section 3.8.3; RFC 7661 section 4). Nor does that of a fast recovery, which reduceRate
	// sets, and that of F-RTO's test; after a time-out slow start begins at once.
	limited := c.has(flagLimited) || c.cc.InSlowStart() && 2*flightBefore > int(c.cc.Window)
	if a.bytes > 0 && open && c.phase != phaseRecovery && snd.frto < frtoNewData && limited {
		t.control(c).Acked(&c.cc, congestion.Ack{Now: t.now, Bytes: a.bytes, MSS: c.payloadLimit(), RTT: clock.Duration(c.srtt) * clock.Microsecond,
			Slow: &snd.slow, Sample: a.rtt, Acked: uint32(c.una), Next: uint32(c.nxt)})
	}
	switch {
	case c.flight() == 0:
		t.armAfterAck(c)
	case t.awaitsReordering(c): // detectLoss has set the timer
	case a.bytes > 0:
		t.armAfterAck(c)
	case c.rtxAt == clock.Never: // to be safe: a flight without a timer would wait for ever
		t.armTimeout(c)
	}
	if a.bytes > 0 || a.delivered > 0 || wnd != c.wnd || duplicate {
		t.wake(id, c)
	}
	t.idleSender(c)
	return true
}

// updateWindow takes the peer's window, unless the segment is older than the one that the present window came with. One that acknowledges new
// data always brings its window: the window counts from the left edge, which it moves.
func (t *Table) updateWindow(c *conn, s *Segment) {
	if c.una.Before(s.Ack) || c.wl1.Before(s.Seq) || c.wl1 == s.Seq && !s.Ack.Before(c.wl2) {
		c.wnd = uint32(s.Window) << c.sndScale // RFC 9293 MUST-1: unsigned
		c.maxWnd = max(c.maxWnd, c.wnd)
		c.wl1, c.wl2 = s.Seq, s.Ack
	}
}

// advance takes what is acknowledged off the retransmission queue.
func (t *Table) advance(id ID, c *conn, snd *sender, ack Seq, a *acknowledged) {
	data, again := 0, false
	for snd.flight.len() > 0 {
		r := snd.flight.at(0)
		n := min(ack.Minus(r.seq), int(r.span))
		if n <= 0 {
			break
		}
		a.bytes += n
		data += min(n, int(r.payload.Length))
		snd.unmark(r, n)
		if r.flags&sentSACKed == 0 {
			a.delivered += n
		}
		again = again || r.flags&sentTwice != 0
		if n < int(r.span) {
			// A part of it: the peer took what it had room for, or the elements were cut otherwise before.
			r.payload = r.payload.cut(min(n, int(r.payload.Length)))
			r.seq += Seq(n)
			r.span -= uint32(n)
			break
		}
		if r.flags&sentTwice == 0 && r.flags&sentSACKed == 0 {
			a.rtt, a.hasRTT = t.now.Sub(r.at), true // MUST-18: sent once
		}
		if r.flags&sentProbe != 0 {
			t.probeArrived(c)
		}
		if r.flags&sentSACKed == 0 {
			t.arrived(c, snd, r)
			a.original = a.original || snd.isOriginal(r)
		} else {
			snd.sackedCount--
		}
		if c.has(flagSuspected) && !c.has(flagBlackHole) && int(r.payload.Length) >= c.payloadLimit() {
			c.flags &^= flagSuspected // large packets do arrive
		}
		if r.flags&sentEnd != 0 {
			t.emit(id, c, Event{Kind: EventSent, Payload: r.payload})
		}
		snd.flight.pop()
	}
	if a.bytes == 0 {
		return
	}
	c.una = ack
	if again {
		a.rtt, a.hasRTT = 0, false // what lay behind it has waited for it
	}
	if data > 0 {
		t.emit(id, c, Event{Kind: EventAcked, Payload: Payload{Length: uint32(data)}})
	}
}

// unmark takes n sequence numbers of an element out of the sums.
func (snd *sender) unmark(r *sent, n int) {
	switch {
	case r.flags&sentSACKed != 0:
		snd.sacked -= n
	case r.flags&sentLost != 0:
		snd.lost -= n
	case r.flags&sentAgain != 0:
		snd.again -= n
	}
}

// takeSACK marks what the peer has beyond a gap: RFC 2018 section 4, RFC 2883 section 4. Blocks that say what cannot be are ignored.
func (t *Table) takeSACK(c *conn, snd *sender, s *Segment, a *acknowledged) {
	blocks := s.Options.SACK[:s.Options.SACKCount]
	for i, b := range blocks {
		left, right := Seq(b.Left), Seq(b.Right)
		if !left.Before(right) {
			continue
		}
		if i == 0 && (!s.Ack.Before(right) || len(blocks) > 1 && !left.Before(Seq(blocks[1].Left)) && !Seq(blocks[1].Right).Before(right)) {
			// RFC 2883: the first block repeats what is acknowledged, or lies within the second. Only what was sent can come twice.
			if right.Minus(c.una) >= -int(max(c.maxWnd, 1)) && !c.nxt.Before(right) {
				a.dsack, a.dsackTo = true, right
			}
			continue
		}
		if left.Before(s.Ack) || c.nxt.Before(right) {
			continue // not within (SND.UNA, SND.NXT]
		}
		for j := snd.find(left); j < snd.flight.len(); j++ {
			r := snd.flight.at(j)
			if right.Before(r.end()) {
				break
			}
			if r.flags&sentSACKed != 0 || r.seq.Before(left) {
				continue
			}
			if r.flags&sentTwice == 0 {
				a.rtt, a.hasRTT = t.now.Sub(r.at), true
			}
			if r.flags&sentProbe != 0 {
				r.flags &^= sentProbe
				t.probeArrived(c)
			}
			snd.unmark(r, int(r.span))
			t.arrived(c, snd, r)
			a.original = a.original || snd.isOriginal(r)
			r.flags = r.flags&^(sentLost|sentAgain) | sentSACKed
			snd.sacked += int(r.span)
			snd.sackedCount++
			a.delivered += int(r.span)
		}
	}
}

// recoverFrom is loss detection and recovery for one acknowledgement: first what shows an episode to be spurious, then new losses (with SACK RFC
// 8985, without it RFC 6582), then the end of an episode. duplicate: RFC 5681 section 2; lostBefore: snd.lost before the acknowledgement.
func (t *Table) recoverFrom(c *conn, snd *sender, s *Segment, a *acknowledged, duplicate bool, lostBefore int) {
	if a.dsack {
		c.duplicateSACK(snd)
		if snd.undo && snd.undoLeft > 0 {
			if snd.undoLeft--; snd.undoLeft == 0 && snd.again == 0 {
				t.undo(c, snd, s, a) // RFC 3708: each retransmission was for nothing
			}
		}
	}
	if a.bytes > 0 && c.phase != phaseOpen && snd.spurious(c, s) {
		t.undo(c, snd, s, a)
	}
	if c.phase == phaseLoss && !t.frtoStep(c, snd, s, a, duplicate) {
		return
	}
	switch {
	case c.has(flagSACK):
		if a.delivered > 0 || a.bytes > 0 || duplicate {
			t.detectLoss(c, snd)
		}
	case a.bytes > 0:
		// RFC 6582 section 3.2 step 3: a partial acknowledgement shows the next gap. It covers the segment that filled the gap, and others: for
		// each of the others a duplicate acknowledgement was counted in left.
		snd.left = max(snd.left-max(a.bytes-c.payloadLimit(), 0), 0)
		if c.phase == phaseRecovery && s.Ack.Before(snd.recover) {
			snd.loseHead()
		} else if c.phase == phaseOpen {
			c.dupAcks, snd.left = 0, 0
		}
		snd.left = min(snd.left, max(c.flight()-snd.lost-snd.again, 0))
	case duplicate:
		a.delivered = c.payloadLimit() // without SACK a duplicate stands for a full segment that has arrived
		c.dupAcks = min(c.dupAcks+1, 255)
		snd.left = min(snd.left+c.payloadLimit(), max(c.flight()-snd.lost-c.payloadLimit(), 0))
		// RFC 6582 section 3.2 step 2: below recover the duplicates may answer retransmissions of the last episode.
		if c.dupAcks == dupThreshold && c.phase == phaseOpen && !c.una.Before(snd.recover) {
			snd.loseHead()
			t.enterRecovery(c, snd)
		}
	}
	if c.phase != phaseOpen && !c.una.Before(snd.recover) {
		t.leaveRecovery(c, snd)
	}
	if c.phase == phaseRecovery {
		t.reduceRate(c, snd, progress{delivered: a.delivered, advanced: a.bytes > 0, lostMore: snd.lost > lostBefore})
	}
}

// loseHead declares the first element lost, unless it was sent again already.
func (snd *sender) loseHead() {
	if snd.flight.len() == 0 {
		return
	}
	if r := snd.flight.at(0); r.flags&(sentLost|sentAgain|sentSACKed) == 0 {
		snd.markLost(r)
	}
}

// isOriginal reports whether an element was sent once, before the episode began.
func (snd *sender) isOriginal(r *sent) bool {
	return r.flags&sentTwice == 0 && !snd.recover.Before(r.end())
}

// frtoStep is F-RTO, which finds out after a time-out whether it was spurious: RFC 5682 section 2.1 steps 2 and 3, and section 3.1 with SACK. It
// reports whether recovery goes on; false: the time-out was spurious, and was undone.
func (t *Table) frtoStep(c *conn, snd *sender, s *Segment, a *acknowledged, duplicate bool) bool {
	switch {
	case a.bytes == 0 && !duplicate && a.delivered == 0: // it says nothing of what was sent
	case snd.frto == frtoFirst:
		if a.bytes > 0 && c.una.Before(snd.recover) && c.unsent() > 0 { // without new data there is nothing to find out
			snd.frto, snd.frtoLeft = frtoNewData, 2
		} else {
			snd.frto = frtoNone
		}
	case snd.frto == frtoNewData, snd.frto == frtoSecond:
		if a.original {
			t.undo(c, snd, s, a) // it acknowledges what was sent once, before the time-out
			return false
		}
		snd.frto = frtoNone                                        // step 3a: the loss was real
		c.cc.Window = max(c.cc.Window, uint32(3*c.payloadLimit())) // the segment of the loss window, and the two of new data
	}
	return true
}

// reactToECE reduces the congestion window when the peer reports, by ECE, packets that the network has marked: RFC 3168 section 6.1.2, once for
// a window of data. flight is what was in flight before the acknowledgement.
func (t *Table) reactToECE(c *conn, snd *sender, s *Segment, flight int) {
	if snd.ecnSet && !c.una.Before(snd.ecnEnd) {
		snd.ecnSet = false
	}
	if !c.has(flagECN) || s.Flags&wire.TCPEce == 0 || snd.ecnSet || c.phase != phaseOpen || flight == 0 {
		return
	}
	t.control(c).Reduce(&c.cc, flight, c.payloadLimit())
	c.cc.Window = min(c.cc.Window, c.cc.Threshold)
	c.flags |= flagCWR
	snd.ecnSet, snd.ecnEnd = true, c.nxt
}
