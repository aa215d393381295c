package tcp

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Dial says whom Connect calls.
type Dial struct {
	Local, Remote Endpoint // local port 0: chosen by RFC 6056 section 3.3.3; the address is the caller's choice
	User          uint64   // in each event
	Path          Path
	Settings      Settings
}

// Connect begins a connection. EventConnected follows, or EventFailed.
func (t *Table) Connect(now clock.Time, d Dial) (ID, error) {
	t.now = now
	if err := d.Settings.check(); err != nil {
		return NoID, err
	}
	// RFC 9293 MUST-46: no connection to a group, to everybody, or to nobody.
	if !isHost(d.Remote.Addr) || !isHost(d.Local.Addr) || d.Remote.Port == 0 {
		return NoID, ErrAddress
	}
	if t.count >= t.config.MaxConns {
		return NoID, ErrLimit
	}
	if d.Local.Port == 0 {
		p, ok := t.choosePort(d.Local, d.Remote)
		if !ok {
			return NoID, ErrNoPort
		}
		d.Local.Port = p
	}
	var iss Seq
	switch r := t.find(d.Local, d.Remote); {
	case r == 0:
		iss = t.initialSequence(now, d.Local, d.Remote)
	case r.kind() == refTimeWait:
		var ok bool
		if iss, ok = t.leaveTimeWait(r.index()); !ok {
			return NoID, ErrInUse
		}
	default:
		return NoID, ErrInUse
	}
	if !t.enter(d.Local, d.Remote) {
		return NoID, ErrInUse
	}
	id, c := t.open(d.Local, d.Remote, t.intern(d.Settings))
	c.user = d.User
	c.una, c.nxt, c.end = iss, iss+1, iss+1
	c.tsOffset = t.timestampOffset(d.Local, d.Remote)
	c.peerMSS = defaultMSS
	c.pathMTU, c.advMSS = t.sizes(d.Path)
	t.fitMSS(c)
	c.rcvScale = scaleOf(&d.Settings)
	c.become(SynSent)
	c.flags |= flagSyn
	c.stuck = now
	t.armTimeout(c)
	t.wake(id, c)
	return id, nil
}

// isHost reports whether the address can be one end of a connection.
func isHost(a wire.Addr) bool { return a[0] != 0 && !a.IsMulticast() && !a.IsReserved() }

func scaleOf(s *Settings) uint8 { return uint8(max(s.WindowScale, 0)) }

// fitMSS finds the most payload of a segment: RFC 9293 MUST-16, section 3.7.1.
func (t *Table) fitMSS(c *conn) {
	mss := min(int(c.peerMSS), int(c.pathMTU)-wire.IPv4Len-wire.TCPLen)
	if most := t.settingsOf(c).MaxSegment; most > 0 {
		mss = min(mss, int(most))
	}
	c.mss = uint16(max(mss, leastOffer))
}

// offeredMSS is what a SYN offers: RFC 9293 MUST-14, SHLD-6. advMSS is Path.AdvMSS.
func offeredMSS(s *Settings, mtu, advMSS uint16) uint16 {
	mss := advMSS
	if mss == 0 {
		mss = uint16(max(int(mtu)-wire.IPv4Len-wire.TCPLen, leastOffer))
	}
	if s.MaxSegment > 0 {
		mss = min(mss, s.MaxSegment)
	}
	return mss
}

// putSyn writes the SYN of an active open, or the SYN and ACK of a simultaneous one.
func (t *Table) putSyn(id ID, c *conn, s *Segment) {
	settings := t.settingsOf(c)
	*s = Segment{Local: c.local, Remote: c.remote, Seq: c.una, Flags: wire.TCPSyn, Conn: id, User: c.user, TTL: settings.TTL, TOS: settings.TOS,
		MayFrag: !settings.PathMTU}
	s.Window = uint16(min(settings.ReceiveBuffer, 0xffff)) // not scaled: RFC 7323 section 2.2
	o := &s.Options
	o.Has, o.MSS = wire.TCPHasMSS, offeredMSS(settings, c.pathMTU, c.advMSS)
	sack, scale, ts := settings.SACK, settings.WindowScale >= 0, settings.Timestamps
	if c.state == SynReceived {
		s.Flags |= wire.TCPAck
		s.Ack = c.rcvNxt
		c.rcvAdv = c.rcvNxt.Add(int(s.Window))
		c.lastAck = c.rcvNxt
		sack, scale, ts = c.has(flagSACK), c.has(flagScaled), c.has(flagTS)
		if c.has(flagECN) {
			s.Flags |= wire.TCPEce
		}
	} else if settings.ECN && c.tries < 2 { // RFC 3168 section 6.1.1.1: some paths drop SYNs that ask for it
		s.Flags |= wire.TCPEce | wire.TCPCwr
	}
	if sack {
		o.Has |= wire.TCPHasSACKPermitted
	}
	if scale {
		o.Has |= wire.TCPHasWindowScale
		o.WindowScale = scaleOf(settings)
	}
	if ts {
		o.Has |= wire.TCPHasTimestamps
		o.TSValue, o.TSEcho = timestamp(t.now)+c.tsOffset, c.tsRecent
	}
	c.sent = t.now
}

// arrivesSynSent takes a segment for a connection whose SYN is out: RFC 9293 section 3.10.7.3. SYN and ACK establishes it; a SYN alone makes the
// open a simultaneous one (SYN-RECEIVED); a reset that acknowledges our SYN refuses it.
func (t *Table) arrivesSynSent(id ID, c *conn, s *Segment) (kept bool, d wire.Drop) {
	ack := s.Flags&wire.TCPAck != 0
	if ack && s.Ack != c.nxt { // only the SYN can be acknowledged
		if s.Flags&wire.TCPRst == 0 {
			t.reset(s)
		}
		return false, wire.TCPUnacceptable
	}
	settings := t.settingsOf(c)
	if ack && s.Options.Has&wire.TCPHasTimestamps != 0 && s.Options.TSEcho != 0 && settings.Timestamps &&
		int32(s.Options.TSEcho-(timestamp(c.stuck)+c.tsOffset)) < 0 {
		if s.Flags&wire.TCPRst == 0 { // older than Connect (stuck): it answers a SYN of an earlier connection
			t.reset(s)
		}
		return false, wire.TCPOld
	}
	if s.Flags&wire.TCPRst != 0 {
		if ack {
			t.stats.ResetsTaken++
			t.fail(id, c, ReasonRefused)
		}
		return false, wire.Accept
	}
	if s.Flags&wire.TCPSyn == 0 {
		return false, wire.TCPUnacceptable
	}
	c.received = t.now
	t.agree(c, s, settings)
	c.rcvNxt = s.Seq + 1
	c.rcvAdv = c.rcvNxt.Add(min(settings.ReceiveBuffer, 0xffff))
	c.lastAck = c.rcvNxt
	c.wnd, c.wl1, c.wl2 = uint32(s.Window), s.Seq, s.Ack // a window beside SYN is not scaled
	c.maxWnd = c.wnd
	if !ack { // RFC 9293 MUST-10: both sent a SYN
		c.become(SynReceived)
		c.flags |= flagSyn
		t.wake(id, c)
		return false, wire.Accept
	}
	// ECN is agreed on when the answer has ECE alone (RFC 3168 section 6.1.1).
	if settings.ECN && s.Flags&(wire.TCPEce|wire.TCPCwr) == wire.TCPEce {
		c.flags |= flagECN
	}
	t.established(id, c)
	t.emit(id, c, Event{Kind: EventConnected})
	c.flags |= flagAckNow
	s.Seq++ // what is behind the SYN
	s.Flags &^= wire.TCPSyn
	if s.span() == 0 {
		return false, wire.Accept
	}
	return t.text(id, c, s)
}

// agree takes the peer's options of its SYN: RFC 9293 section 3.7.1, RFC 7323 sections 2 and 3, RFC 2018 section 2.
func (t *Table) agree(c *conn, s *Segment, settings *Settings) {
	c.peerMSS = peerMSS(s)
	c.flags &^= flagSACK | flagTS | flagScaled
	if settings.SACK && s.Options.Has&wire.TCPHasSACKPermitted != 0 {
		c.flags |= flagSACK
	}
	if settings.Timestamps && s.Options.Has&wire.TCPHasTimestamps != 0 {
		c.flags |= flagTS
		c.tsRecent, c.tsRecentAt = s.Options.TSValue, seconds(t.now)
	}
	c.sndScale, c.rcvScale = 0, 0
	if settings.WindowScale >= 0 && s.Options.Has&wire.TCPHasWindowScale != 0 {
		c.flags |= flagScaled
		c.sndScale, c.rcvScale = min(s.Options.WindowScale, maxScale), scaleOf(settings)
	}
	t.fitMSS(c)
}

// peerMSS is what a SYN allows: RFC 9293 MUST-15. A size that leaves no room for data is taken for the least that does.
func peerMSS(s *Segment) uint16 {
	if s.Options.Has&wire.TCPHasMSS == 0 {
		return defaultMSS
	}
	return max(s.Options.MSS, minMSS)
}

// established ends a handshake, active, passive or simultaneous, when our SYN is acknowledged: it sets the state ESTABLISHED and the initial
// congestion window. It measures the SYN's round trip unless it was sent twice; accept measures that of a passive open.
func (t *Table) established(id ID, c *conn) {
	if !c.has(flagSYNLost) && c.state != Closed {
		c.measured(t.now.Sub(c.sent)) // MUST-18: it was sent once
	}
	c.una = c.nxt
	c.become(Established)
	c.tries, c.stuck = 0, t.now
	c.rtxKind, c.rtxAt = rtxNone, clock.Never
	c.cc.Init(c.payloadLimit())
	if c.has(flagSYNLost) {
		c.cc.Window = uint32(initialWindow(c))
	}
	if t.settingsOf(c).Congestion == NoCongestionControl {
		c.cc.Window = maxWindow
	}
	t.armLife(c)
	t.wake(id, c)
}

// completeSimultaneous takes an acknowledgement in SYN-RECEIVED of a simultaneous open: RFC 9293 section 3.10.7.4, fifth step. It reports
// whether the connection is established now; an acknowledgement of anything but our SYN is answered with a reset.
func (t *Table) completeSimultaneous(id ID, c *conn, s *Segment) bool {
	if s.Ack != c.nxt {
		t.reset(s)
		return false
	}
	if c.has(flagSyn) { // our SYN and ACK has not left: the peer's SYN is acknowledged without it
		c.flags = c.flags&^flagSyn | flagAckNow
	}
	t.established(id, c)
	c.wl1, c.wl2 = s.Seq, s.Ack
	t.updateWindow(c, s)
	t.emit(id, c, Event{Kind: EventConnected})
	if c.has(flagFin) {
		c.become(FinWait1)
	}
	return true
}
