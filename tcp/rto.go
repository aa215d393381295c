package tcp

import "github.com/socketxtreme/socketxtreme/internal/clock"

const us = int64(clock.Microsecond)

// measured takes a sample of the round trip: RFC 6298 section 2. Only segments that were sent once give one (MUST-18, Karn).
func (c *conn) measured(rtt clock.Duration) {
	r := uint32(min(max(int64(rtt)/us, 1), 1<<30))
	if c.minRTT == 0 || r < c.minRTT {
		c.minRTT = r
	}
	if c.srtt == 0 { // (2.2)
		c.srtt, c.rttvar = r, r/2
		return
	}
	// (2.3): RTTVAR before SRTT.
	diff := max(c.srtt, r) - min(c.srtt, r)
	c.rttvar += diff/4 - c.rttvar/4
	c.srtt = max(c.srtt-c.srtt/8+r/8, 1)
}

// rto is the retransmission time-out without back-off: RFC 6298 (2.1) to (2.5).
func (t *Table) rto(c *conn) clock.Duration {
	s := t.settingsOf(c)
	d := s.RTOInitial
	if c.srtt == 0 && c.has(flagSYNLost) && synchronized.has(c.state) {
		d = max(d, 3*clock.Second) // RFC 6298 (5.7)
	}
	if c.srtt != 0 {
		d = clock.Duration(int64(c.srtt)+max(4*int64(c.rttvar), int64(s.RTOMin)/us)) * clock.Microsecond
		if c.flight() < 2*c.payloadLimit() {
			// Less than two full segments: the peer may delay the acknowledgement. A quarter more, as in armLossProbe.
			d = max(d, clock.Duration(int64(c.srtt)*us)+s.PeerAckDelay+s.PeerAckDelay/4)
		}
	}
	return min(max(d, s.RTOMin), s.RTOMax)
}

// backedOff is the time-out after the time-outs that there were: RFC 6298 (5.5), (2.5).
func (t *Table) backedOff(c *conn) clock.Duration {
	s := t.settingsOf(c)
	d := t.rto(c)
	for n := c.tries; n > 0 && d < s.RTOMax; n-- {
		d *= 2
	}
	return min(d, s.RTOMax)
}
