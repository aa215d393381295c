package tcp

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// halfOpen is SYN-RECEIVED of a passive open: a SYN was answered, and no connection has a record yet. It is small, has no buffer and no timer of
// its own, so that a flood of SYNs costs little (RFC 4987 section 3).
type halfOpen struct {
	local, remote Endpoint
	irs, iss      Seq
	tsRecent      uint32
	listener      ListenerID
	mss, mtu      uint16
	advMSS        uint16 // Path.AdvMSS
	scale         uint8
	flags         handshakeFlags
	tries         uint8
	due           clock.Time
	answered      clock.Time // the first time
	next, prev    uint32     // in its row
}

type handshakeFlags uint8

const (
	handshakeTS handshakeFlags = 1 << iota
	handshakeSACK
	handshakeScaled
	handshakeECN
	handshakeSend // the SYN and ACK is to be sent
	handshakeLive
	handshakeChallenged
)

// halfOpens are a table's half-open connections. Those whose SYN was answered equally often are in one row, in the order of their times.
type halfOpens struct {
	all   []halfOpen
	free  []uint32
	rows  [maxSynRetries + 1]row
	send  queue[uint32] // whose SYN and ACK is to be sent
	count int
}

// row is a list of records, by place + 1.
type row struct{ first, last uint32 }

// maxSynRetries bounds Settings.SynRetries for passive opens: 5, as Linux has it, is used where the settings say more.
const maxSynRetries = 5

// answerSyn answers a SYN that a listener has received: RFC 9293 section 3.10.7.2, third step. It keeps a half-open record and queues the SYN
// and ACK. From MaxHalfOpen records of the listener on, or with CookiesAlways, it keeps none and answers with a cookie. It drops the SYN when
// the backlog is full, beyond Config.SynRate, and at MaxHalfOpen with CookiesNever.
func (t *Table) answerSyn(id ListenerID, s *Segment) wire.Drop {
	l := &t.listeners[id-1]
	if l.waiting >= l.backlog || t.config.SynRate > 0 && !l.mayAnswer(t.now, t.config.SynRate) {
		t.stats.Overflows++
		return wire.TCPBacklog
	}
	cookies := t.config.Cookies
	if cookies == CookiesAlways || l.halfOpen >= t.config.MaxHalfOpen {
		if cookies == CookiesNever {
			t.stats.Overflows++
			return wire.TCPBacklog
		}
		t.sendCookie(l, s)
		return wire.Accept
	}
	if !t.enter(s.Local, s.Remote) {
		return wire.TCPMoving // another table has the flow: the sender of this segment did not know yet
	}
	settings := &t.settings[l.settings].s
	h := halfOpen{local: s.Local, remote: s.Remote, irs: s.Seq, iss: t.initialSequence(t.now, s.Local, s.Remote), listener: id,
		mss: peerMSS(s), answered: t.now, flags: handshakeLive | handshakeSend}
	h.mtu, h.advMSS = t.pathBack(id, s, settings)
	h.flags |= offers(settings, s)
	if h.flags&handshakeTS != 0 {
		h.tsRecent = s.Options.TSValue
	}
	if h.flags&handshakeScaled != 0 {
		h.scale = min(s.Options.WindowScale, maxScale)
	}
	at := t.halfOpen.add(h)
	l.halfOpen++
	t.flows.add(s.Local, s.Remote, refOf(refHalfOpen, at))
	t.halfOpen.addToRow(at, t.now.Add(settings.RTOInitial))
	t.halfOpen.send.push(at)
	return wire.Accept
}

// pathBack is what the host knows of the path to the peer of a handshake that a listener with these settings answers.
func (t *Table) pathBack(id ListenerID, s *Segment, settings *Settings) (mtu, advMSS uint16) {
	var p Path
	if t.config.Path != nil {
		p = t.config.Path(id, s.Local.Addr, s.Remote.Addr, settings.TOS, settings.TTL)
	}
	return t.sizes(p)
}

// offers are the options that the peer's SYN offers and the settings allow: what the SYN and ACK agrees to. ECN is agreed to whatever the
// settings say.
func offers(settings *Settings, s *Segment) (f handshakeFlags) {
	if settings.Timestamps && s.Options.Has&wire.TCPHasTimestamps != 0 {
		f |= handshakeTS
	}
	if settings.SACK && s.Options.Has&wire.TCPHasSACKPermitted != 0 {
		f |= handshakeSACK
	}
	if settings.WindowScale >= 0 && s.Options.Has&wire.TCPHasWindowScale != 0 {
		f |= handshakeScaled
	}
	if s.Flags&(wire.TCPEce|wire.TCPCwr) == wire.TCPEce|wire.TCPCwr { // RFC 3168 section 6.1.1
		f |= handshakeECN
	}
	return f
}

// add stores a record in a free place and returns the place. The record is in no row yet.
func (q *halfOpens) add(h halfOpen) uint32 {
	q.count++
	if n := len(q.free); n > 0 {
		at := q.free[n-1]
		q.free = q.free[:n-1]
		q.all[at] = h
		return at
	}
	q.all = append(q.all, h)
	return uint32(len(q.all) - 1)
}

// addToRow puts a record at the end of the row of its tries, to be sent again at due. Listeners may have different first time-outs: a record
// with a shorter one waits until those in front of it are due, so that the row stays in order.
func (q *halfOpens) addToRow(at uint32, due clock.Time) {
	h := &q.all[at]
	r := &q.rows[h.tries]
	if last := r.last; last != 0 {
		due = max(due, q.all[last-1].due)
		q.all[last-1].next = at + 1
	} else {
		r.first = at + 1
	}
	h.due, h.prev, h.next = due, r.last, 0
	r.last = at + 1
}

// removeFromRow takes a record out of its row.
func (q *halfOpens) removeFromRow(at uint32) {
	h := &q.all[at]
	r := &q.rows[h.tries]
	if h.prev != 0 {
		q.all[h.prev-1].next = h.next
	} else {
		r.first = h.next
	}
	if h.next != 0 {
		q.all[h.next-1].prev = h.prev
	} else {
		r.last = h.prev
	}
}

// remove ends a record, whose flow is free then.
func (q *halfOpens) remove(t *Table, at uint32) {
	t.leave(q.all[at].local, q.all[at].remote)
	q.promote(t, at)
}

// promote ends a record that becomes a connection: the flow stays the table's. Its place is free at once, or, while the send queue still
// names it, when next finds it there.
func (q *halfOpens) promote(t *Table, at uint32) {
	h := &q.all[at]
	q.removeFromRow(at)
	t.flows.remove(h.local, h.remote, refOf(refHalfOpen, at))
	t.listeners[h.listener-1].halfOpen--
	h.flags &^= handshakeLive
	q.count--
	if h.flags&handshakeSend == 0 {
		q.free = append(q.free, at)
	}
}

// dropListener ends all records of a listener that is being closed. Nothing is sent.
func (q *halfOpens) dropListener(t *Table, id ListenerID) {
	for at := range q.all {
		if h := &q.all[at]; h.flags&handshakeLive != 0 && h.listener == id {
			q.remove(t, uint32(at))
		}
	}
}

// next writes the next SYN and ACK to be sent to s; false: none waits.
func (q *halfOpens) next(t *Table, s *Segment) bool {
	for q.send.len() > 0 {
		at := q.send.pop()
		h := &q.all[at]
		h.flags &^= handshakeSend
		if h.flags&handshakeLive == 0 {
			q.free = append(q.free, at)
			continue
		}
		t.putSynAck(h, s)
		return true
	}
	return false
}

// putSynAck writes the SYN and ACK of a half-open record, with the options that were agreed on. Its window is not scaled (RFC 7323 section 2.2).
func (t *Table) putSynAck(h *halfOpen, s *Segment) {
	settings := &t.settings[t.listeners[h.listener-1].settings].s
	*s = Segment{Local: h.local, Remote: h.remote, Seq: h.iss, Ack: h.irs + 1, Flags: wire.TCPSyn | wire.TCPAck, Conn: NoID,
		User: t.listeners[h.listener-1].user, TTL: settings.TTL, TOS: settings.TOS, MayFrag: !settings.PathMTU,
		Window: uint16(min(settings.ReceiveBuffer, 0xffff))}
	o := &s.Options
	o.Has, o.MSS = wire.TCPHasMSS, offeredMSS(settings, h.mtu, h.advMSS)
	if h.flags&handshakeSACK != 0 {
		o.Has |= wire.TCPHasSACKPermitted
	}
	if h.flags&handshakeScaled != 0 {
		o.Has |= wire.TCPHasWindowScale
		o.WindowScale = scaleOf(settings)
	}
	if h.flags&handshakeTS != 0 {
		o.Has |= wire.TCPHasTimestamps
		o.TSValue, o.TSEcho = timestamp(t.now)+t.timestampOffset(h.local, h.remote), h.tsRecent
	}
	if h.flags&handshakeECN != 0 {
		s.Flags |= wire.TCPEce
	}
}

// expire sends SYN and ACK again, with back-off, and gives up what stays unanswered: RFC 9293 MUST-22, MUST-23. more: the limit of one call was
// reached, and records are still due.
func (q *halfOpens) expire(t *Table) (more bool) {
	budget := expireLimit
	for tries := range q.rows {
		for q.rows[tries].first != 0 {
			at := q.rows[tries].first - 1
			h := &q.all[at]
			if h.due > t.now {
				break
			}
			if budget--; budget < 0 {
				return true
			}
			settings := &t.settings[t.listeners[h.listener-1].settings].s
			if tries == maxSynRetries || tries >= int(settings.SynRetries) {
				q.remove(t, at)
				continue
			}
			q.removeFromRow(at)
			h.tries++
			q.addToRow(at, t.now.Add(min(settings.RTOInitial<<h.tries, settings.RTOMax)))
			q.again(at)
		}
	}
	return false
}

// again queues the SYN and ACK of a record, unless it is in the queue already.
func (q *halfOpens) again(at uint32) {
	if h := &q.all[at]; h.flags&handshakeSend == 0 {
		h.flags |= handshakeSend
		q.send.push(at)
	}
}

// deadline is when the first record is due; clock.Never without records.
func (q *halfOpens) deadline() clock.Time {
	at := clock.Never
	for _, r := range q.rows {
		if r.first != 0 {
			at = min(at, q.all[r.first-1].due)
		}
	}
	return at
}

// arrivesHalfOpen takes a segment for a half-open record: RFC 9293 section 3.10.7.4 in SYN-RECEIVED, for a connection that came from LISTEN. The
// acknowledgement of our SYN makes the connection. kept and d are those of Input.
func (t *Table) arrivesHalfOpen(at uint32, s *Segment) (kept bool, d wire.Drop) {
	h := &t.halfOpen.all[at]
	l := &t.listeners[h.listener-1]
	settings := &t.settings[l.settings].s
	window := min(settings.ReceiveBuffer, 0xffff)
	if h.flags&handshakeTS != 0 && s.Flags&wire.TCPRst == 0 && s.Options.Has&wire.TCPHasTimestamps != 0 && int32(s.Options.TSValue-h.tsRecent) < 0 {
		t.stats.Old++ // PAWS: RFC 7323 section 5.3, R1
		t.answerHalfOpen(h)
		return false, wire.TCPOld
	}
	if s.Flags&(wire.TCPSyn|wire.TCPAck|wire.TCPRst) == wire.TCPSyn && s.Seq == h.irs {
		t.halfOpen.again(at) // the SYN again: the answer was lost
		return false, wire.Accept
	}
	if !acceptable(s.Seq, s.span(), h.irs+1, h.irs.Add(1+window)) {
		t.stats.Unacceptable++
		if s.Flags&wire.TCPRst == 0 {
			t.answerHalfOpen(h)
		}
		return false, wire.TCPUnacceptable
	}
	switch {
	case s.Flags&wire.TCPRst != 0: // RFC 5961 section 3.2; MUST-11: back to LISTEN
		if s.Seq == h.irs+1 {
			t.stats.ResetsTaken++
			t.halfOpen.remove(t, at)
			return false, wire.Accept
		}
		t.answerHalfOpen(h)
		return false, wire.TCPUnacceptable
	case s.Flags&wire.TCPSyn != 0: // RFC 5961 section 4.2
		t.answerHalfOpen(h)
		return false, wire.TCPUnacceptable
	case s.Flags&wire.TCPAck == 0:
		return false, wire.TCPUnacceptable
	case s.Ack != h.iss+1: // it does not acknowledge our SYN: section 3.10.7.4, fifth step
		t.reset(s)
		return false, wire.TCPUnacceptable
	}
	if l.waiting >= l.backlog || t.count >= t.config.MaxConns {
		t.stats.Overflows++
		return false, wire.TCPBacklog // the peer sends it again
	}
	agreed := *h
	t.halfOpen.promote(t, at)
	return t.accept(&agreed, s)
}

// answerHalfOpen sends an acknowledgement for a segment that is not acceptable, or a challenge ACK (RFC 5961), at most one in
// Config.ChallengeInterval.
func (t *Table) answerHalfOpen(h *halfOpen) {
	if h.flags&handshakeChallenged != 0 && t.now.Sub(h.answered) < t.config.ChallengeInterval {
		return
	}
	h.flags |= handshakeChallenged
	h.answered = t.now
	t.stats.Challenges++
	settings := &t.settings[t.listeners[h.listener-1].settings].s
	s := Segment{Local: h.local, Remote: h.remote, Seq: h.iss + 1, Ack: h.irs + 1, Flags: wire.TCPAck, User: t.listeners[h.listener-1].user,
		TTL: settings.TTL, TOS: settings.TOS,
		Window: uint16(min(settings.ReceiveBuffer, 0xffff) >> h.windowShift(settings))}
	if h.flags&handshakeTS != 0 {
		s.Options.Has = wire.TCPHasTimestamps
		s.Options.TSValue, s.Options.TSEcho = timestamp(t.now)+t.timestampOffset(h.local, h.remote), h.tsRecent
	}
	t.sendControl(s)
}

// windowShift is by how many bits our window is shifted in segments without SYN: 0 unless scaling was agreed on.
func (h *halfOpen) windowShift(s *Settings) uint8 {
	if h.flags&handshakeScaled != 0 {
		return scaleOf(s)
	}
	return 0
}

// accept makes the connection of a handshake that is complete. The segment that completes it may carry data and FIN.
func (t *Table) accept(h *halfOpen, s *Segment) (kept bool, d wire.Drop) {
	l := &t.listeners[h.listener-1]
	t.settings[l.settings].uses++
	id, c := t.open(h.local, h.remote, l.settings)
	settings := t.settingsOf(c)
	c.listener, c.user = h.listener, l.user
	l.waiting++
	c.flags |= flagPassive
	c.una, c.nxt, c.end = h.iss+1, h.iss+1, h.iss+1
	c.rcvNxt, c.lastAck = h.irs+1, h.irs+1
	c.rcvAdv = c.rcvNxt.Add(min(settings.ReceiveBuffer, 0xffff)) // what the SYN and ACK offered: see putSynAck
	c.tsOffset = t.timestampOffset(h.local, h.remote)
	c.tsRecent, c.tsRecentAt = h.tsRecent, seconds(t.now)
	c.peerMSS, c.pathMTU, c.advMSS = h.mss, h.mtu, h.advMSS
	if h.flags&handshakeTS != 0 {
		c.flags |= flagTS
	}
	if h.flags&handshakeSACK != 0 {
		c.flags |= flagSACK
	}
	if h.flags&handshakeECN != 0 {
		c.flags |= flagECN
	}
	if h.flags&handshakeScaled != 0 {
		c.flags |= flagScaled
		c.sndScale, c.rcvScale = h.scale, scaleOf(settings)
	}
	t.fitMSS(c)
	// A sample is what was sent once and has one time: a cookie has none, and a challenge has replaced it.
	if h.tries > 0 {
		c.flags |= flagSYNLost
	} else if h.answered != 0 && h.flags&handshakeChallenged == 0 {
		c.measured(t.now.Sub(h.answered))
	}
	t.established(id, c)
	c.wnd, c.wl1, c.wl2 = uint32(s.Window)<<c.sndScale, s.Seq, s.Ack
	c.maxWnd = c.wnd
	t.emit(id, c, Event{Kind: EventAccepted, Listener: h.listener})
	return t.arrivesOther(id, c, s)
}
