package tcp

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// sentAfter orders two transmissions: RFC 8985 section 5.2.
func sentAfter(at1 clock.Time, end1 Seq, at2 clock.Time, end2 Seq) bool {
	return at1 > at2 || at1 == at2 && end2.Before(end1)
}

// arrived updates RACK for an element that was acknowledged or SACKed: its send time, round trip, and whether the network reorders (RFC 8985
// section 6.2 steps 1 to 3).
func (t *Table) arrived(c *conn, snd *sender, r *sent) {
	rtt := t.now.Sub(r.at)
	if r.flags&sentTwice != 0 && int64(rtt)/us < int64(c.minRTT) {
		return // the acknowledgement is more likely for an earlier transmission
	}
	if snd.rackAt == 0 || sentAfter(r.at, r.end(), snd.rackAt, snd.rackEnd) {
		snd.rackAt, snd.rackEnd, snd.rackRTT = r.at, r.end(), rtt
	}
	switch end := r.end(); {
	case snd.highest.Before(end):
		snd.highest = end
	case end.Before(snd.highest) && r.flags&sentTwice == 0:
		c.flags |= flagReordering
	}
}

// reorderWindow is RFC 8985 section 6.2 step 4.
func (c *conn) reorderWindow(snd *sender) clock.Duration {
	if !c.has(flagReordering) && (c.phase != phaseOpen || snd.sackedCount >= dupThreshold) {
		return 0
	}
	return clock.Duration(min(int64(snd.rackMult)*int64(c.minRTT)/4, int64(c.srtt))) * clock.Microsecond
}

// dupThreshold is RFC 5681's and RFC 6675's.
const dupThreshold = 3

// maxReorderQuarters bounds the reordering window: RFC 8985 leaves it to the round trip.
const maxReorderQuarters = 40

// detectLoss declares lost what was sent long enough before something that has arrived: RFC 8985 section 6.2 step 5. The timer for the rest
// replaces the others.
func (t *Table) detectLoss(c *conn, snd *sender) {
	if snd.rackAt == 0 {
		return
	}
	window := c.reorderWindow(snd)
	var wait clock.Duration
	congestion := false
	for i := range snd.flight.len() {
		r := snd.flight.at(i)
		if r.flags&(sentSACKed|sentLost) != 0 {
			continue
		}
		if !sentAfter(snd.rackAt, snd.rackEnd, r.at, r.end()) {
			if r.flags&sentTwice == 0 {
				break // all behind it were sent later
			}
			continue
		}
		if left := r.at.Add(snd.rackRTT + window).Sub(t.now); left > 0 {
			wait = max(wait, left)
		} else {
			snd.markLost(r)
			if r.flags&sentProbe != 0 {
				c.probeLost(snd) // it was too long
			} else {
				congestion = true
			}
		}
	}
	if wait > 0 {
		c.rtxKind, c.rtxAt = rtxReorder, t.now.Add(wait)
	}
	if congestion && c.phase == phaseOpen {
		t.enterRecovery(c, snd)
	}
}

// markLost declares an element lost: retransmit will send it again. The sums of the scoreboard follow.
func (snd *sender) markLost(r *sent) {
	if r.flags&sentAgain != 0 {
		r.flags &^= sentAgain
		snd.again -= int(r.span)
	}
	r.flags |= sentLost
	if snd.lost == 0 || r.seq.Before(snd.lostFrom) {
		snd.lostFrom = r.seq
	}
	snd.lost += int(r.span)
}

// duplicateSACK is RFC 8985 section 6.2 step 4: the reordering window was too small; once in a round trip it grows.
func (c *conn) duplicateSACK(snd *sender) {
	c.flags |= flagReordering
	if !c.una.Before(snd.rackRound) {
		snd.rackRound = c.nxt
		snd.rackMult = min(snd.rackMult+1, maxReorderQuarters)
	}
	snd.rackKeep = 16 // recoveries: see enterRecovery
}

// mayProbeLoss reports whether a tail loss probe may be scheduled: RFC 8985 section 7.2.
func (t *Table) mayProbeLoss(c *conn, snd *sender) bool {
	return c.has(flagSACK) && c.phase == phaseOpen && snd.lost == 0 && snd.sacked == 0 && !snd.probing && c.srtt != 0 && c.tries == 0
}

// minProbeTime keeps probes apart from the wheel's coarseness and from a peer that is scheduled late.
const minProbeTime = 2 * clock.Millisecond

// armLossProbe is RFC 8985 section 7.2: the probe time-out.
func (t *Table) armLossProbe(c *conn) {
	pto := 2 * clock.Duration(c.srtt) * clock.Microsecond
	if c.flight() < 2*c.payloadLimit() {
		d := t.settingsOf(c).PeerAckDelay
		pto += d + d/4 // a quarter more, because the peer's timer may be late
	}
	pto = max(pto, minProbeTime)
	if pto >= t.backedOff(c) {
		t.armTimeout(c)
		return
	}
	c.rtxKind, c.rtxAt = rtxLossProbe, t.limited(c, t.now.Add(pto))
}

// sendLossProbe is RFC 8985 section 7.3: a segment of new data if there is one, else the last one again.
func (t *Table) sendLossProbe(id ID, c *conn, snd *sender, s *Segment) bool {
	c.flags &^= flagLossProbe
	if c.flight() == 0 || c.phase != phaseOpen || snd.probing {
		return false
	}
	snd.probing, snd.probeAgain = true, false
	t.stats.LossProbes++
	usable := c.una.Add(int(c.wnd)).Minus(c.nxt)
	if snd.unsent.len() > 0 && usable > 0 {
		n := min(int(snd.unsent.at(0).Length), c.payloadLimit(), usable)
		t.sendPiece(id, c, snd, n, usable, s)
		snd.probeEnd = c.nxt
		return true
	}
	n := snd.flight.len()
	if last := snd.flight.at(n - 1); last.flags&sentSACKed != 0 {
		return false // it has arrived since the timer was set: what is before it RACK sees to
	}
	for int(snd.flight.at(snd.flight.len()-1).payload.Length) > c.payloadLimit() {
		snd.split(snd.flight.len()-1, c.payloadLimit())
	}
	r := snd.flight.at(snd.flight.len() - 1)
	if r.flags&sentAgain == 0 {
		snd.again += int(r.span)
	}
	r.flags |= sentAgain | sentTwice
	snd.probeAgain, snd.probeEnd = true, c.nxt
	t.putAgain(id, c, r, s)
	return true
}

// probeAnswered is RFC 8985 section 7.4.2: a loss that the probe repaired counts as congestion.
func (t *Table) probeAnswered(c *conn, snd *sender, ack Seq, dsack bool, onlyAck bool) {
	if !snd.probing || ack.Before(snd.probeEnd) {
		return
	}
	switch {
	case !snd.probeAgain, dsack: // new data arrived; or the original and the probe did
	case snd.probeEnd.Before(ack):
		// More than the probe is acknowledged, without a D-SACK for it: the original was lost.
		t.enterRecovery(c, snd)
		t.leaveRecovery(c, snd)
	case onlyAck && ack == c.una: // a duplicate: both arrived
	default:
		return // wait for the duplicate, or for more
	}
	snd.probing = false
}

const wireRstAck = wire.TCPRst | wire.TCPAck
