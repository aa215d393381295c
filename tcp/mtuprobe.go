package tcp

import "github.com/socketxtreme/socketxtreme/internal/wire"

// A path that lost large packets may carry them later: other routes, or bad luck that looked like a black hole. Ten minutes after the size was
// lowered a segment of new data is sent that is larger, and what happens to it decides (RFC 8899 section 5.3, RFC 4821 section 7):
//
//	acknowledged   the path has that MTU; the next larger size is tried at once
//	lost           no congestion, and a size in between is tried; when none is left, again after ten minutes
//
// The segment is of one piece of a buffer like any other. A transport whose pieces are no longer than Info.MSS leaves nothing to probe with.

const (
	raiseAfter   = 600 // seconds: PMTU_RAISE_TIMER of RFC 8899 section 5.1.1, RFC 1191 section 6.3
	minProbeStep = 32  // sizes closer together are not worth a probe
)

// lowered notes that the path MTU was more than it is now.
func (t *Table) lowered(c *conn, from uint16) {
	c.fullMTU = max(c.fullMTU, from)
	c.failedMTU, c.raiseAt = 0, seconds(t.now)+raiseAfter
}

// candidate is the MTU to try next, or 0: the largest there was, then the middle of what is known.
func (c *conn) candidate() int {
	top := min(int(c.fullMTU), int(c.peerMSS)+wire.IPv4Len+wire.TCPLen)
	if c.failedMTU != 0 {
		top = (int(c.pathMTU) + int(c.failedMTU)) / 2
	}
	if top < int(c.pathMTU)+minProbeStep {
		return 0
	}
	return top
}

// probePayload is the payload of a probe, of which the first piece has enough, or 0. What follows the probe shows its loss, so that two segments
// must fit behind it.
func (t *Table) probePayload(c *conn, snd *sender, usable int) int {
	if seconds(t.now) < c.raiseAt || c.probeMTU != 0 || c.phase != phaseOpen || !c.has(flagSACK) || snd.lost+snd.sacked > 0 || snd.frto != frtoNone {
		return 0
	}
	mtu := c.candidate()
	if mtu == 0 {
		c.failedMTU, c.raiseAt = 0, seconds(t.now)+raiseAfter
		if c.candidate() == 0 {
			c.raiseAt = 0 // nothing larger is left
		}
		return 0
	}
	limit := c.payloadLimit()
	n := limit + mtu - int(c.pathMTU)
	if most := t.settingsOf(c).MaxSegment; most > 0 {
		n = min(n, int(most))
	}
	if n <= limit || int(snd.unsent.at(0).Length) < n || min(c.unsent(), usable, int(c.cc.Window)-snd.pipe(c)) < n+2*limit {
		return 0
	}
	c.probeMTU = uint16(mtu)
	return n
}

// probeArrived ends a probe that was acknowledged or SACKed: the path has that MTU, and the segment size grows.
func (t *Table) probeArrived(c *conn) {
	if c.probeMTU > c.pathMTU {
		c.pathMTU = c.probeMTU
		c.flags &^= flagBlackHole | flagSuspected
		t.fitMSS(c)
	}
	c.probeMTU = 0
}

// probeLost ends a probe that was lost: candidate then tries a size between the two.
func (c *conn) probeLost(snd *sender) {
	for i := range snd.flight.len() {
		snd.flight.at(i).flags &^= sentProbe
	}
	c.failedMTU, c.probeMTU = c.probeMTU, 0
}

// probeRefused is an ICMP error about a probe: the path has less, and says how much.
func (t *Table) probeRefused(id ID, c *conn, mtu int) {
	snd := t.senders[c.sender-1]
	for i := range snd.flight.len() {
		if r := snd.flight.at(i); r.flags&sentProbe != 0 && r.flags&(sentSACKed|sentLost) == 0 {
			snd.markLost(r)
		}
	}
	c.probeLost(snd)
	c.failedMTU = uint16(min(mtu+minProbeStep, int(c.failedMTU))) // not mtu itself: that much the path carries
	t.wake(id, c)
}
