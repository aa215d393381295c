package tcp

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/tcp/congestion"
)

// A connection moves in two steps, so that it can stay when the other side refuses it:
//
//	Export ──► it is stopped: segments for it are dropped, nothing leaves ──► Discard: it is elsewhere now
//	                                                                    └───► Resume: it goes on here
//	Import ──► it goes on here
//
// The peer notices a pause: it sends again what was dropped meanwhile.

// quietTime is how long segments of a connection that has moved away are dropped. A late one would be answered with a reset else. It has two
// halves, and the second begins when the owner finds the first one over: an owner that stopped for longer than quietTime runs its timers before
// it takes the segments that came meanwhile.
const quietTime = clock.Second

// Export stops a connection and returns its state and the payload of its queues. Until Resume or Discard, segments for it are dropped, none
// leaves, and calls that would change it return ErrMoving; Close and Abort reset it. The payload in the queues stays readable until the events
// that follow Discard are taken. Errors: ErrNoConn, ErrNotOpen, ErrMoving; ErrState in other states than ESTABLISHED, FIN-WAIT-1 and FIN-WAIT-2.
func (t *Table) Export(now clock.Time, id ID) (s Snapshot, q Queues, err error) {
	t.now = now
	c := t.get(id)
	switch {
	case c == nil:
		return s, q, ErrNoConn
	case c.has(flagMoving):
		return s, q, ErrMoving
	case c.has(flagFailed) || c.state == Closed:
		return s, q, ErrNotOpen
	case !receives.has(c.state):
		return s, q, fmt.Errorf("%w: %v", ErrState, c.state)
	}
	s, q = t.snapshot(c)
	c.flags |= flagMoving
	c.rtxKind, c.rtxAt, c.ackAt, c.lifeAt = rtxNone, clock.Never, clock.Never, clock.Never
	t.schedule(id, c)
	return s, q, nil
}

// snapshot copies what is known of a connection, and lists the payload of its retransmission and send queues. Received stays empty: data in
// order was reported by EventData already.
func (t *Table) snapshot(c *conn) (s Snapshot, q Queues) {
	micro := func(n uint32) clock.Duration { return clock.Duration(n) * clock.Microsecond }
	s = Snapshot{Local: c.local, Remote: c.remote, SendUnacked: c.una, SendNext: c.nxt, Fin: c.has(flagFin),
		SendWindow: c.wnd, MaxSendWindow: c.maxWnd, SendWL1: c.wl1,
		ReceiveNext: c.rcvNxt, ReceiveWindow: uint32(max(c.rcvAdv.Minus(c.rcvNxt), 0)), Held: int(c.held),
		PeerMSS: c.peerMSS, MTU: int(c.pathMTU), Scaled: c.has(flagScaled), SendScale: c.sndScale, ReceiveScale: c.rcvScale,
		SACK: c.has(flagSACK), ECN: c.has(flagECN), Timestamps: c.has(flagTS), TSRecent: c.tsRecent, TSRecentKnown: c.has(flagTS),
		RTT: micro(c.srtt), RTTVar: micro(c.rttvar), MinRTT: micro(c.minRTT),
		CongestionWindow: int(c.cc.Window), SlowStartThreshold: int(c.cc.Threshold), Settings: *t.settingsOf(c)}
	if c.has(flagTS) {
		s.Timestamp = timestamp(t.now) + c.tsOffset
	}
	if c.has(flagFinSent) { // FIN counts as not sent, also if it was acknowledged: who imports it sends it again
		s.SendNext--
		if c.finAcked() {
			s.SendUnacked--
		}
	}
	if c.sender != 0 {
		snd := t.senders[c.sender-1]
		for i := range snd.flight.len() {
			if p := snd.flight.at(i).payload; p.Length > 0 {
				q.Sent = append(q.Sent, p)
			}
		}
		for i := range snd.unsent.len() {
			q.Unsent = append(q.Unsent, snd.unsent.at(i).Payload)
		}
	}
	if c.reassembly != 0 {
		s.Reneged = t.reassemblies[c.reassembly-1].bytes
	}
	return s, q
}

// discarded reports whether the connection has moved away: Export sets lifeAt to Never, Discard to the end of quietTime.
func (c *conn) discarded() bool { return c.has(flagMoving) && c.lifeAt != clock.Never }

// Resume has a connection go on that Export has stopped: the move came to nothing.
func (t *Table) Resume(now clock.Time, id ID) error {
	t.now = now
	c := t.get(id)
	switch {
	case c == nil:
		return ErrNoConn
	case !c.has(flagMoving) || c.discarded():
		return ErrNotOpen
	}
	c.flags &^= flagMoving
	t.restart(id, c)
	return nil
}

// restart starts the timers and the sending of a connection that was resumed or imported. An acknowledgement announces the present window, and a
// probe asks the peer: its answer acknowledges what it has received meanwhile.
func (t *Table) restart(id ID, c *conn) {
	c.flags |= flagProbe | flagAckNow
	c.stuck, c.tries = t.now, 0
	if c.flight() > 0 {
		t.armTimeout(c)
	}
	t.armLife(c)
	t.wake(id, c)
	t.schedule(id, c)
}

// Discard forgets a connection that Export has stopped, and that goes on elsewhere. No segment leaves. Its buffers return by EventSent and
// EventDropped. Segments that are still under way to this table are dropped for a second; then comes EventGone.
func (t *Table) Discard(now clock.Time, id ID) error {
	t.now = now
	c := t.get(id)
	switch {
	case c == nil:
		return ErrNoConn
	case !c.has(flagMoving) || c.discarded():
		return ErrNotOpen
	}
	t.dropSender(id, c)
	t.dropReassembly(id, c)
	c.lifeAt, c.probes = now.Add(quietTime/2), 0
	t.schedule(id, c)
	return nil
}

// Import makes a connection of a snapshot, which goes on at once. The pieces of Sent and Unsent are the connection's as if they had been given
// to Send. Those of Received come back by EventData. Errors: ErrInUse, ErrLimit, ErrAddress, ErrSettings.
func (t *Table) Import(now clock.Time, s *Snapshot, q *Queues, user uint64) (ID, error) {
	t.now = now
	if err := s.check(q); err != nil {
		return NoID, err
	}
	if r := t.find(s.Local, s.Remote); r != 0 {
		id := ID(r.index())
		if r.kind() != refConn || !t.conn(id).discarded() {
			return NoID, ErrInUse
		}
		t.endMove(id, t.conn(id)) // it was here before
	}
	if t.count >= t.config.MaxConns {
		return NoID, ErrLimit
	}
	if !t.enter(s.Local, s.Remote) {
		return NoID, ErrInUse
	}
	id, c := t.open(s.Local, s.Remote, t.intern(s.Settings))
	c.user = user
	t.restore(c, s)
	c.become(Established)
	t.restoreQueues(c, q)
	if s.Fin {
		c.flags |= flagFin | flagPush
		c.become(FinWait1)
	}
	c.held = uint32(s.Held + length(q.Received))
	for _, p := range q.Received {
		t.emit(id, c, Event{Kind: EventData, Payload: p})
	}
	t.restart(id, c)
	return id, nil
}

// quietEnds is the end of a half of quietTime, and reports whether the record of the connection is still there.
func (t *Table) quietEnds(id ID, c *conn) bool {
	if c.probes == 0 {
		c.lifeAt, c.probes = t.now.Add(quietTime/2), 1
		return true
	}
	t.endMove(id, c)
	return false
}

// endMove forgets the record of a connection that has moved away.
func (t *Table) endMove(id ID, c *conn) {
	t.closeConn(id, c)
	t.forget(id, c)
}

// restore sets a new record from a snapshot: options, sequence numbers, windows, timestamps, round trip and congestion window. The payload is
// restoreQueues' part, which also moves SND.NXT behind what was sent.
func (t *Table) restore(c *conn, s *Snapshot) {
	micro := func(d clock.Duration) uint32 { return uint32(min(int64(d)/us, 1<<30)) }
	flag := func(f connFlags, on bool) {
		if on {
			c.flags |= f
		}
	}
	flag(flagScaled, s.Scaled)
	flag(flagSACK, s.SACK)
	flag(flagTS, s.Timestamps)
	flag(flagECN, s.ECN)
	c.sndScale, c.rcvScale = s.SendScale, s.ReceiveScale
	c.peerMSS, c.pathMTU = s.PeerMSS, uint16(s.MTU)
	t.fitMSS(c)
	c.una, c.nxt, c.end = s.SendUnacked, s.SendUnacked, s.SendUnacked
	c.wnd, c.maxWnd, c.wl1, c.wl2 = s.SendWindow, max(s.SendWindow, s.MaxSendWindow), s.SendWL1, s.SendUnacked
	c.rcvNxt, c.rcvAdv, c.lastAck = s.ReceiveNext, s.ReceiveNext.Add(int(s.ReceiveWindow)), s.ReceiveNext
	if s.Timestamps {
		c.tsOffset = s.Timestamp - timestamp(t.now)
		c.tsRecent, c.tsRecentAt = s.TSRecent, seconds(t.now)
		if !s.TSRecentKnown {
			c.tsRecentAt -= pawsIdle // RFC 7323 section 5.5: it means nothing, and the next one is taken
		}
	}
	c.srtt, c.rttvar, c.minRTT = micro(s.RTT), micro(s.RTTVar), micro(s.MinRTT)
	if c.minRTT == 0 {
		c.minRTT = c.srtt
	}
	c.received, c.sent = t.now, t.now
	c.cc.Init(c.payloadLimit())
	if s.CongestionWindow > 0 {
		c.cc.Window = uint32(min(max(s.CongestionWindow, c.payloadLimit()), congestion.MaxWindow))
	}
	if s.SlowStartThreshold > 0 {
		c.cc.Threshold = uint32(min(max(s.SlowStartThreshold, 2*c.payloadLimit()), congestion.MaxWindow))
	}
	if s.Settings.Congestion == NoCongestionControl {
		c.cc.Window = maxWindow
	}
}

// restoreQueues fills the retransmission queue (Sent) and the send queue (Unsent). Sent is cut into full segments, so that the peer's SACK
// blocks find them, and marked as retransmitted, because the time at which it left is not known (RFC 9293 MUST-18).
func (t *Table) restoreQueues(c *conn, q *Queues) {
	if len(q.Sent)+len(q.Unsent) == 0 {
		return
	}
	snd := t.senderOf(c)
	for _, p := range q.Sent {
		for p.Length > 0 {
			n := min(int(p.Length), c.payloadLimit())
			r := sent{payload: p.first(n), at: t.now, seq: c.nxt, span: uint32(n), flags: sentTwice}
			if p = p.cut(n); p.Length == 0 {
				r.flags |= sentEnd
			}
			snd.flight.push(r)
			c.nxt += Seq(n)
		}
	}
	c.end = c.nxt.Add(length(q.Unsent))
	for _, p := range q.Unsent {
		snd.unsent.push(piece{Payload: p})
	}
}
