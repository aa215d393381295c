package tcp

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// A SYN cookie is an initial sequence number from which the record of a handshake can be made again, so that none is kept (RFC 4987
// section 3.6):
//
//	| 29 bits: keyed hash of addresses, peer's number, epoch, size class | 3 bits: size class |
//
// An epoch is 64 s; an acknowledgement is taken in the one in which the cookie was sent, and in the next. With timestamps the rest of what was
// agreed on is in the lowest six bits of the timestamp, as Linux has it: scale, 15 for none, SACK, ECN.

// cookieSizes are the maximum segment sizes that a cookie can name.
var cookieSizes = [8]uint16{minMSS, 216, 536, 1200, 1360, 1440, 1460, 8960}

const (
	cookieEpoch   = 64 * clock.Second
	cookieScale   = 0xf
	cookieSACK    = 1 << 4
	cookieECN     = 1 << 5
	cookieBits    = 6
	cookieNoScale = 15
)

// epochOf is the number of an epoch, from 1 on: 0 in Table.cookieEpoch says that no cookie was sent.
func epochOf(now clock.Time) uint32 { return uint32(int64(now)/int64(cookieEpoch)) + 1 }

// cookie computes the SYN cookie of a handshake: the initial sequence number of our SYN and ACK. irs is the peer's initial sequence number.
func (t *Table) cookie(local, remote Endpoint, irs Seq, epoch uint32, class uint8) Seq {
	h := t.key.of(useCookie, local, remote, uint64(irs)<<32|uint64(epoch)<<3|uint64(class))
	return Seq(h)&^7 | Seq(class)
}

// sendCookie answers a SYN and keeps nothing.
func (t *Table) sendCookie(l *listener, s *Segment) {
	t.stats.Cookies++
	settings := &t.settings[l.settings].s
	class := uint8(0)
	for class < 7 && cookieSizes[class+1] <= peerMSS(s) {
		class++
	}
	epoch := epochOf(t.now)
	t.cookieEpoch = epoch
	h := halfOpen{local: s.Local, remote: s.Remote, irs: s.Seq, iss: t.cookie(s.Local, s.Remote, s.Seq, epoch, class),
		listener: t.listening(s.Local), flags: offers(settings, s)}
	h.mtu, h.advMSS = t.pathBack(h.listener, s, settings)
	if h.flags&handshakeTS == 0 {
		h.flags = 0 // nothing carries the rest
	} else {
		h.tsRecent = s.Options.TSValue
	}
	var out Segment
	t.putSynAck(&h, &out)
	if h.flags&handshakeTS != 0 {
		state := uint32(cookieNoScale)
		if h.flags&handshakeScaled != 0 {
			state = uint32(min(s.Options.WindowScale, maxScale))
		}
		if h.flags&handshakeSACK != 0 {
			state |= cookieSACK
		}
		if h.flags&handshakeECN != 0 {
			state |= cookieECN
		}
		// Older than the clock by less than 64 ms, never newer: the peer drops segments whose timestamp is older than this one (RFC 7323 section
		// 5.3, R1).
		present := out.Options.TSValue
		out.Options.TSValue = present&^(1<<cookieBits-1) | state
		if int32(out.Options.TSValue-present) > 0 {
			out.Options.TSValue -= 1 << cookieBits
		}
	}
	t.sendControl(out)
}

// arrivesCookie is an acknowledgement for a listener: the end of a handshake by cookie, or one that a reset answers (RFC 9293 section 3.10.7.2,
// second step). Cookies are taken only while some may be out.
func (t *Table) arrivesCookie(id ListenerID, s *Segment) (kept bool, d wire.Drop) {
	epoch := epochOf(t.now)
	if t.cookieEpoch == 0 || epoch-t.cookieEpoch > 1 || s.Flags&wire.TCPSyn != 0 {
		t.reset(s)
		return false, wire.TCPNoConnection
	}
	iss, irs := s.Ack-1, s.Seq-1
	class := uint8(iss & 7)
	if t.cookie(s.Local, s.Remote, irs, epoch, class) != iss && t.cookie(s.Local, s.Remote, irs, epoch-1, class) != iss {
		t.stats.CookiesBad++
		t.reset(s)
		return false, wire.TCPNoConnection
	}
	l := &t.listeners[id-1]
	if l.waiting >= l.backlog || t.count >= t.config.MaxConns {
		t.stats.Overflows++
		return false, wire.TCPBacklog
	}
	if !t.enter(s.Local, s.Remote) {
		return false, wire.TCPMoving
	}
	h := halfOpen{local: s.Local, remote: s.Remote, irs: irs, iss: iss, listener: id, mss: cookieSizes[class]}
	settings := &t.settings[l.settings].s
	h.mtu, h.advMSS = t.pathBack(id, s, settings)
	if settings.Timestamps && s.Options.Has&wire.TCPHasTimestamps != 0 {
		state := s.Options.TSEcho
		h.flags, h.tsRecent = handshakeTS, s.Options.TSValue
		if scale := state & cookieScale; scale != cookieNoScale && settings.WindowScale >= 0 {
			h.flags |= handshakeScaled
			h.scale = uint8(scale)
		}
		if state&cookieSACK != 0 && settings.SACK {
			h.flags |= handshakeSACK
		}
		if state&cookieECN != 0 {
			h.flags |= handshakeECN
		}
	}
	return t.accept(&h, s)
}
