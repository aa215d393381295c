package tcp

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// transmit writes the next segment of a connection to s. The order is: what opens the connection, what is lost, new data and FIN, probes, and an
// acknowledgement only if nothing has carried it.
func (t *Table) transmit(id ID, c *conn, s *Segment) bool {
	switch {
	case c.has(flagMoving):
		return false
	case c.has(flagSyn):
		c.flags &^= flagSyn | flagAckNow
		t.putSyn(id, c, s)
		return true
	case c.state == SynSent:
		return false
	}
	if sends.has(c.state) {
		if c.sender != 0 {
			snd := t.senders[c.sender-1]
			if t.retransmit(id, c, snd, s) || t.sendNew(id, c, snd, s) {
				return true
			}
			if snd.frto == frtoNewData {
				// RFC 5682 section 2.1 step 2b: nothing new may be sent, so that nothing can be found out.
				snd.frto = frtoNone
				if t.retransmit(id, c, snd, s) {
					return true
				}
			}
			if c.has(flagLossProbe) && t.sendLossProbe(id, c, snd, s) {
				return true
			}
		}
		if t.sendFin(id, c, s) {
			return true
		}
	}
	switch {
	case c.has(flagAckNow):
		t.put(id, c, s, wire.TCPAck, c.nxt, Payload{})
		return true
	case c.has(flagProbe):
		c.flags &^= flagProbe
		t.putProbe(id, c, s)
		return true
	}
	return false
}

// putProbe writes a segment that is not acceptable: the peer answers it with an acknowledgement (RFC 9293 section 3.10.7.4), whatever its window
// is. The peer takes neither the acknowledgement nor the window of such a segment, so both remain to be announced.
func (t *Table) putProbe(id ID, c *conn, s *Segment) {
	t.fill(id, c, s, wire.TCPAck, c.una-1, Payload{})
	s.Window = c.offered()
}

// put writes a segment without SYN: with the present acknowledgement and window (RFC 9293 MUST-58, MUST-59). It ends a delayed acknowledgement,
// because this segment carries it.
func (t *Table) put(id ID, c *conn, s *Segment, flags wire.TCPFlags, seq Seq, p Payload) {
	t.fill(id, c, s, flags, seq, p)
	s.Window = t.window(c, t.settingsOf(c))
	c.flags &^= flagAckNow | flagWindowHeld | flagPushed
	if c.reassembly != 0 && c.has(flagSACK) {
		t.putSACK(c, s) // it may ask for one more acknowledgement
	}
	c.lastAck, c.unacked, c.full, c.ackAt = c.rcvNxt, 0, 0, clock.Never
}

// fill fills in a segment without SYN, but for its window and its SACK option: addresses, numbers, timestamps. At the least path MTU the path
// may have less: see minPathMTU.
func (t *Table) fill(id ID, c *conn, s *Segment, flags wire.TCPFlags, seq Seq, p Payload) {
	settings := t.settingsOf(c)
	*s = Segment{Local: c.local, Remote: c.remote, Seq: seq, Ack: c.rcvNxt, Flags: flags, Payload: p, Conn: id, User: c.user,
		TTL: settings.TTL, TOS: settings.TOS, MayFrag: !settings.PathMTU || c.pathMTU <= minPathMTU}
	if c.has(flagTS) {
		s.Options.Has = wire.TCPHasTimestamps
		s.Options.TSValue, s.Options.TSEcho = timestamp(t.now)+c.tsOffset, c.tsRecent
	}
	if c.has(flagEcho) {
		s.Flags |= wire.TCPEce // RFC 3168 section 6.1.3: until CWR comes
	}
}

// window is what the peer is offered: RFC 9293 section 3.8.6.2.2 and RFC 7323 section 2.3. The right edge that rcvAdv remembers is never pulled
// back (SHLD-14); what scaling rounds off is accepted nevertheless (RFC 7323 section 2.4).
func (t *Table) window(c *conn, settings *Settings) uint16 {
	room := min(max(settings.ReceiveBuffer-int(c.held), 0), 0xffff<<c.rcvScale)
	if edge := c.rcvNxt.Add(room); edge.Minus(c.rcvAdv) >= windowStep(c, settings) {
		c.rcvAdv = edge
	}
	return c.offered()
}

// offered is the window that the peer was offered last, less what it has sent since.
func (c *conn) offered() uint16 {
	return uint16(min(max(c.rcvAdv.Minus(c.rcvNxt), 0)>>c.rcvScale, 0xffff))
}

// windowStep is how far the right edge moves at least: RFC 9293 MUST-39.
func windowStep(c *conn, settings *Settings) int {
	return min(int(c.mss), max(settings.ReceiveBuffer/2, 1))
}

// retransmit writes the first element that is declared lost to s, if the congestion window has room, and reports whether it did. With
// frtoNewData new data goes first (RFC 5682 section 2.1).
func (t *Table) retransmit(id ID, c *conn, snd *sender, s *Segment) bool {
	if snd.lost == 0 || snd.frto >= frtoNewData {
		return false
	}
	i := snd.find(maxSeq(snd.lostFrom, c.una))
	for i < snd.flight.len() && snd.flight.at(i).flags&sentLost == 0 {
		i++
	}
	if i == snd.flight.len() {
		panic("tcp: lost bytes are counted that no element has")
	}
	if snd.frto == frtoFirst && i > 0 {
		return false // RFC 5682 section 2.1 step 1: the first segment alone, and what comes back decides
	}
	r := snd.flight.at(i)
	snd.lostFrom = r.seq
	size := min(int(r.span), c.payloadLimit())
	if pipe := snd.pipe(c); pipe > 0 && pipe+size > int(c.cc.Window) {
		c.flags |= flagLimited
		return false
	}
	// RFC 9293 MUST-34: a window that shrank holds retransmissions back, but for the first segment, which is what probes it.
	if i > 0 && c.una.Add(int(c.wnd)).Before(r.seq+Seq(size)) {
		return false
	}
	r = snd.split(i, c.payloadLimit())
	r.flags = r.flags&^sentLost | sentAgain | sentTwice
	snd.lost -= int(r.span)
	snd.again += int(r.span)
	snd.out += int(r.span)
	snd.undoLeft++
	if !snd.undoTSKnown {
		snd.undoTS, snd.undoTSKnown = timestamp(t.now)+c.tsOffset, true
	}
	t.putAgain(id, c, r, s)
	if !t.awaitsReordering(c) && (i == 0 || c.rtxKind != rtxTimeout) {
		t.armTimeout(c)
	}
	return true
}

// putAgain writes a segment that was sent before. It is not ECN-capable (RFC 3168 section 6.1.5).
func (t *Table) putAgain(id ID, c *conn, r *sent, s *Segment) {
	flags := wire.TCPAck
	if r.flags&sentPush != 0 {
		flags |= wire.TCPPsh
	}
	if r.flags&sentFin != 0 {
		flags |= wire.TCPFin
	}
	r.at = t.now
	t.put(id, c, s, flags, r.seq, r.payload)
	s.Again = true
	t.stats.Retransmitted++
}

// split makes element i at most limit long, and returns it. What is cut off becomes an element of its own with the same marks.
func (snd *sender) split(i, limit int) *sent {
	r := snd.flight.at(i)
	if int(r.payload.Length) <= limit {
		return r
	}
	rest := *r
	rest.seq += Seq(limit)
	rest.span -= uint32(limit)
	rest.payload = r.payload.cut(limit)
	r.payload = r.payload.first(limit)
	r.span = uint32(limit)
	r.flags &^= sentEnd | sentFin | sentPush
	if r.flags&sentSACKed != 0 {
		snd.sackedCount++
	}
	snd.flight.insert(i+1, rest)
	return snd.flight.at(i)
}

// sendNew sends new data: RFC 9293 section 3.8.6.2.1 and Nagle's algorithm (section 3.7.4).
func (t *Table) sendNew(id ID, c *conn, snd *sender, s *Segment) bool {
	if snd.unsent.len() == 0 {
		c.flags &^= flagLimited
		return false
	}
	settings := t.settingsOf(c)
	if c.flight() == 0 && c.srtt != 0 && t.now.Sub(c.sent) > t.rto(c) && settings.Congestion != NoCongestionControl {
		// RFC 5681 section 4.1: what was known of the path is old.
		c.cc.Window = min(c.cc.Window, uint32(initialWindow(c)))
	}
	head := snd.unsent.at(0)
	limit := c.payloadLimit()
	usable := c.una.Add(int(c.wnd)).Minus(c.nxt) // negative where the peer's window shrank (RFC 9293 MUST-34)
	n, probe := min(int(head.Length), limit, usable), 0
	if c.raiseAt != 0 {
		if probe = t.probePayload(c, snd, usable); probe > 0 {
			n = probe
		}
	}
	if n <= 0 {
		c.flags &^= flagLimited
		return false
	}
	if !t.maySend(c, settings, n, limit) {
		c.flags &^= flagLimited
		return false
	}
	if pipe := snd.pipe(c); pipe > 0 && pipe+n > int(c.cc.Window) && snd.frto != frtoNewData {
		c.flags |= flagLimited
		return false
	}
	t.sendPiece(id, c, snd, n, usable, s)
	if probe > 0 {
		snd.flight.at(snd.flight.len() - 1).flags |= sentProbe
		t.stats.SizeProbes++
	}
	if snd.frto == frtoNewData {
		if snd.frtoLeft--; snd.frtoLeft == 0 {
			snd.frto = frtoSecond
		}
	}
	return true
}

// sendPiece sends n bytes of the first piece, and FIN behind the last one if the window has room.
func (t *Table) sendPiece(id ID, c *conn, snd *sender, n, usable int, s *Segment) {
	head := snd.unsent.at(0)
	r := sent{payload: head.Payload.first(n), at: t.now, seq: c.nxt, span: uint32(n)}
	flags := wire.TCPAck
	if n == int(head.Length) {
		r.flags |= sentEnd
		snd.unsent.pop()
	} else {
		head.Payload, head.begun = head.Payload.cut(n), true
	}
	last := c.unsent() == n
	if last || r.flags&sentEnd != 0 && !c.has(flagMore) {
		r.flags |= sentPush // RFC 9293 MUST-60, MUST-61
		flags |= wire.TCPPsh
	}
	if last {
		c.flags &^= flagPush
	} else if n < c.payloadLimit() {
		snd.partEnd = c.nxt.Add(n)
	}
	if last && c.has(flagFin) && usable > n {
		r.flags |= sentFin
		r.span++
		flags |= wire.TCPFin
		c.flags |= flagFinSent
	}
	t.sendFirst(id, c, snd, r, flags, s)
}

// maySend decides whether a segment of n bytes of new data may leave now, of which limit would be a full one: the sender's silly window
// avoidance (RFC 9293 section 3.8.6.2.1), Nagle's algorithm (section 3.7.4), Cork, and what Send said of more.
func (t *Table) maySend(c *conn, settings *Settings, n, limit int) bool {
	waiting := c.unsent()
	switch {
	case n >= limit, c.has(flagPush):
		return true
	case n < waiting && c.una.Add(int(c.wnd)).Minus(c.nxt) == n:
		// The window cuts it: silly windows are avoided (MUST-38). They are small ones; the rest of a larger one goes, one such part at a time.
		snd := t.senders[c.sender-1]
		return n >= int(c.maxWnd)/2 || c.flight() > 0 && c.wnd >= c.maxWnd/2 && !c.una.Before(snd.partEnd)
	case n < waiting && waiting >= limit: // pieces of a length that the application chose, a full segment of them
		return true
	case c.has(flagFin):
		return true
	case settings.Cork, c.has(flagMore):
		return false
	}
	return settings.NoDelay || c.flight() == 0 // MUST-17, SHLD-7
}

// sendFin sends a FIN that could not go with data, when all data was sent and the peer's window has room for it.
func (t *Table) sendFin(id ID, c *conn, s *Segment) bool {
	if !c.has(flagFin) || c.has(flagFinSent) || c.nxt != c.end || int(c.wnd) <= c.flight() {
		return false
	}
	c.flags |= flagFinSent
	t.sendFirst(id, c, t.senderOf(c), sent{at: t.now, seq: c.nxt, span: 1, flags: sentFin}, wire.TCPAck|wire.TCPFin, s)
	return true
}

// sendFirst puts an element into the retransmission queue, moves SND.NXT behind it, writes its segment to s and sets the timer.
func (t *Table) sendFirst(id ID, c *conn, snd *sender, r sent, flags wire.TCPFlags, s *Segment) {
	if c.flight() == 0 {
		c.stuck = t.now
		c.tries = 0
	}
	snd.flight.push(r)
	snd.out += int(r.span)
	c.nxt += Seq(r.span)
	c.sent = t.now
	if r.payload.Length > 0 {
		c.quick = 0 // the application answers: its answers carry the acknowledgements
		if c.unacked > 0 {
			c.flags |= flagAnswers
		}
	}
	t.put(id, c, s, flags, r.seq, r.payload)
	if c.has(flagECN) && r.payload.Length > 0 {
		s.ECN = ECT0 // RFC 3168 section 6.1.2
		if c.has(flagCWR) {
			s.Flags |= wire.TCPCwr
			c.flags &^= flagCWR
		}
	}
	t.armAfterSend(c, snd)
}

// pipe is how much is believed to be in the network: RFC 6675 section 4. Without SACK each duplicate acknowledgement stands for a segment that
// has left it (RFC 5681 section 3.2).
func (snd *sender) pipe(c *conn) int { return c.flight() - snd.sacked - snd.lost - snd.left }
