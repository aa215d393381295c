package tcp

import (
	"github.com/socketxtreme/socketxtreme/tcp/congestion"
)

// control is the congestion control algorithm that the connection's settings name.
func (t *Table) control(c *conn) congestion.Control {
	return congestion.Controls[t.settingsOf(c).Congestion]
}

// initialWindow is RFC 6928; after a lost SYN it is one segment (RFC 5681 section 3.1).
func initialWindow(c *conn) int {
	if c.has(flagSYNLost) {
		return c.payloadLimit()
	}
	return congestion.InitialWindow(c.payloadLimit())
}

// enterRecovery begins fast recovery, an episode of loss without a time-out: RFC 6675 section 5 step 4, RFC 6582 section 3.2 step 2. It reduces
// the slow start threshold; reduceRate then brings the window down to it.
func (t *Table) enterRecovery(c *conn, snd *sender) {
	t.stats.FastRecovery++
	c.phase = phaseRecovery
	t.beginEpisode(c, snd)
	t.control(c).Reduce(&c.cc, c.flight(), c.payloadLimit())
	// RFC 9937 section 6.
	snd.delivered, snd.out, snd.flightAtLoss = 0, 0, max(c.flight(), 1)
	if snd.rackKeep > 0 {
		if snd.rackKeep--; snd.rackKeep == 0 {
			snd.rackMult = 1 // RFC 8985 section 6.2 step 4: sixteen recoveries without a D-SACK
		}
	}
}

// beginEpisode notes what ends an episode and what would show that it was spurious.
func (t *Table) beginEpisode(c *conn, snd *sender) {
	snd.recover = c.nxt
	snd.undo, snd.undoLeft, snd.undoFrom, snd.undoTSKnown = true, 0, c.una, false
	c.flags &^= flagLossProbe
}

// leaveRecovery ends an episode, when all that was sent before it is acknowledged: RFC 9937 section 6, RFC 6582 section 3.2 step 3. An
// acknowledgement that arrives later may still undo the episode.
func (t *Table) leaveRecovery(c *conn, snd *sender) {
	if c.phase == phaseRecovery {
		c.cc.Window = c.cc.Threshold
	}
	c.phase = phaseOpen
	c.dupAcks, snd.left, snd.frto = 0, 0, frtoNone
	t.retrySize(c)
	// Marks that are left are of elements beyond the episode: they stay what they are.
}

// enterLoss is what a time-out does to the sender: RFC 5681 section 3.1, RFC 6298 (5.4), RFC 5682 section 2.1 step 1.
func (t *Table) enterLoss(c *conn, snd *sender) {
	first := snd.flight.at(0)
	again := c.phase == phaseLoss
	if !again {
		t.beginEpisode(c, snd)
		t.control(c).Reduce(&c.cc, c.flight(), c.payloadLimit()) // once for an episode: RFC 5681 section 3.1
		snd.frto = frtoFirst
	} else {
		snd.frto = frtoNone // RFC 5682 section 2.1 step 1: the segment was sent again before
		snd.undo = false
	}
	if first.flags&sentTwice != 0 {
		snd.frto = frtoNone
	}
	c.phase = phaseLoss
	snd.recover = c.nxt
	c.dupAcks, snd.left, snd.probing = 0, 0, false
	if first.flags&sentSACKed != 0 {
		snd.forgetSACK()
	}
	window := c.reorderWindow(snd)
	for i := range snd.flight.len() {
		r := snd.flight.at(i)
		// RFC 8985 section 6.3: what was sent less than a round trip ago may still arrive.
		recent := c.has(flagSACK) && i > 0 && snd.rackAt != 0 && r.at.Add(snd.rackRTT+window) > t.now
		if r.flags&(sentSACKed|sentLost) == 0 && !recent {
			snd.markLost(r)
		}
	}
	if c.probeMTU != 0 {
		c.probeLost(snd)
	}
	if t.settingsOf(c).Congestion != NoCongestionControl {
		c.cc.Window = uint32(snd.pipe(c) + c.payloadLimit()) // the loss window: one segment more than what is still under way
	}
	t.blackHole(c)
}

// forgetSACK removes all SACK marks. It runs when a time-out finds the first element SACKed but not acknowledged: the peer has discarded what
// it had SACKed (RFC 2018 section 8). Without that proof the marks are kept over a time-out: RFC 6675 section 5.1.
func (snd *sender) forgetSACK() {
	for i := range snd.flight.len() {
		snd.flight.at(i).flags &^= sentSACKed
	}
	snd.sacked, snd.sackedCount = 0, 0
}

// progress is what an acknowledgement, or a time-out of RACK, has changed in a recovery.
type progress struct {
	delivered int  // bytes newly acknowledged or SACKed
	advanced  bool // SND.UNA moved
	lostMore  bool // more was declared lost
}

// reduceRate is proportional rate reduction for one acknowledgement of a recovery: RFC 9937 section 6. It sets the window to what is in the
// network plus what may be sent now.
func (t *Table) reduceRate(c *conn, snd *sender, p progress) {
	if t.settingsOf(c).Congestion == NoCongestionControl {
		return
	}
	mss := c.payloadLimit()
	snd.delivered += p.delivered
	threshold, pipe := int(c.cc.Threshold), snd.pipe(c)
	var count int
	if pipe > threshold {
		count = int((int64(snd.delivered)*int64(threshold)+int64(snd.flightAtLoss)-1)/int64(snd.flightAtLoss)) - snd.out
	} else {
		limit := max(snd.delivered-snd.out, p.delivered)
		if p.advanced && !p.lostMore {
			limit += mss
		}
		count = min(threshold-pipe, limit)
	}
	if snd.out == 0 {
		count = max(count, mss) // the fast retransmit
	}
	c.cc.Window = uint32(max(pipe+max(count, 0), mss))
}

// undo ends an episode that was spurious, because nothing was lost, and restores the congestion window: RFC 4015, RFC 5682 section 3, RFC 9438
// section 4.9.
func (t *Table) undo(c *conn, snd *sender, s *Segment, a *acknowledged) {
	t.stats.Undone++
	t.control(c).Undo(&c.cc)
	if c.phase == phaseLoss {
		t.respond(c, snd, s, a)
	}
	for i := range snd.flight.len() {
		snd.flight.at(i).flags &^= sentLost
	}
	snd.lost = 0
	snd.undo = false
	c.phase = phaseOpen
	c.dupAcks, snd.left, snd.frto, c.tries = 0, 0, frtoNone, 0
	t.retrySize(c)
}

// respond is RFC 4015 for a spurious time-out. The round trip has grown faster than its estimate, which is raised (section 3.3), and the window
// that is restored is not sent as one burst (section 3.2).
//
// What came a round trip or more after the retransmission may be the answer to it, with the timestamp of an original whose acknowledgement was
// lost: that age is no round trip.
func (t *Table) respond(c *conn, snd *sender, s *Segment, a *acknowledged) {
	rtt := int64(a.rtt) / us
	now := timestamp(t.now) + c.tsOffset
	if echo := now - s.Options.TSEcho; snd.spurious(c, s) && echo < maxEcho && int64(now-snd.undoTS)*1000 < int64(c.minRTT) {
		rtt = max(rtt, int64(echo)*1000)
	}
	if rtt > 0 {
		c.srtt, c.rttvar = max(c.srtt, uint32(rtt)), max(c.rttvar, uint32(rtt)/2)
	}
	if t.settingsOf(c).Congestion != NoCongestionControl {
		c.cc.Threshold = max(c.cc.Threshold, c.cc.Window)
		c.cc.Window = min(c.cc.Window, uint32(c.flight()+min(a.bytes, initialWindow(c))))
	}
}

// maxEcho bounds what a timestamp can say of a round trip, in milliseconds: a peer may echo anything.
const maxEcho = 120_000

// spurious reports whether an acknowledgement shows by its timestamp that it answers an original transmission: RFC 3522 section 3.2.
func (snd *sender) spurious(c *conn, s *Segment) bool {
	return snd.undo && snd.undoTSKnown && c.has(flagTS) && s.Options.TSEcho != 0 && int32(s.Options.TSEcho-snd.undoTS) < 0
}
