package tcp

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Path is what the host knows of the path to a peer when a connection begins.
type Path struct {
	MTU    int // the longest packet that need not be fragmented; 0: Config.MTU
	AdvMSS int // the segment size that our SYN announces (advmss of Linux's routes); 0: MTU without headers
}

// sizes are the fields of a record that begins with a path.
func (t *Table) sizes(p Path) (mtu, advMSS uint16) {
	if p.MTU == 0 {
		p.MTU = t.config.MTU
	}
	if p.AdvMSS != 0 {
		advMSS = uint16(min(max(p.AdvMSS, leastOffer), 65535))
	}
	return uint16(min(max(p.MTU, minMTU), 65535)), advMSS
}

// NetworkError is an ICMP error that quotes a segment of this host.
type NetworkError struct {
	Local, Remote Endpoint // of the quoted segment, which this host sent
	Seq           Seq      // of it
	Type, Code    uint8
	MTU           int // of the next hop, where the packet was too long for it
	// NoNeighbour: this host has found it out, because no neighbour answered for the next hop. It ends a handshake, as in Linux.
	NoNeighbour bool
}

// ICMP numbers (RFC 792, RFC 1122 section 3.2.2).
const (
	icmpUnreachable  = 3
	icmpTimeExceeded = 11
	icmpParameter    = 12

	timestampsLen       = 12 // of the timestamps option with its padding
	icmpProtocol        = 2
	icmpPort            = 3
	icmpFragmentsNeeded = 4
)

// minPathMTU is the least path MTU that an ICMP error can bring about: Linux's. A smaller one is the mark of an attack (RFC 5927 section 7).
// Where it is none, routers fragment packets of this size: they do not have the don't fragment bit.
const minPathMTU = 552

// Error takes an ICMP error. Accept: it is about a segment that is in flight (RFC 5927 section 4.1).
func (t *Table) Error(now clock.Time, e NetworkError) wire.Drop {
	t.now = now
	r := t.find(e.Local, e.Remote)
	if r == 0 || r.kind() == refTimeWait {
		return wire.ICMPNoSocket
	}
	if r.kind() == refHalfOpen {
		h := &t.halfOpen.all[r.index()]
		if e.Seq != h.iss {
			return wire.ICMPNoSocket
		}
		if e.Type == icmpUnreachable && e.Code == icmpFragmentsNeeded && e.MTU >= minPathMTU {
			h.mtu = min(h.mtu, uint16(min(e.MTU, 65535)))
		}
		return wire.Accept // soft: the SYN and ACK is sent again (RFC 9293 MUST-56)
	}
	id := ID(r.index())
	c := t.conn(id)
	if !e.Seq.in(c.una, c.nxt) {
		return wire.ICMPNoSocket
	}
	switch {
	case e.NoNeighbour && c.state == SynSent:
		t.fail(id, c, ReasonUnreachable)
		return wire.Accept
	case e.Type == icmpUnreachable && e.Code == icmpFragmentsNeeded:
		return t.tooLong(id, c, e.MTU)
	case e.Type == icmpUnreachable && (e.Code == icmpProtocol || e.Code == icmpPort):
		// Hard only while nobody has answered (RFC 9293 SHLD-26, weighed against RFC 5927 section 5.2: never later).
		if c.state == SynSent {
			t.fail(id, c, ReasonProtocol)
			return wire.Accept
		}
		t.soft(id, c)
	case e.Type == icmpUnreachable, e.Type == icmpTimeExceeded, e.Type == icmpParameter:
		t.soft(id, c) // MUST-56
	default: // source quench among them: MUST-55
		return wire.ICMPType
	}
	return wire.Accept
}

// soft emits EventWarning for an ICMP error that may pass (RFC 9293 MUST-56), unless nobody has taken the connection or it was closed.
func (t *Table) soft(id ID, c *conn) {
	if !c.has(flagAppClosed) && c.listener == 0 {
		t.emit(id, c, Event{Kind: EventWarning, Reason: ReasonSoftError})
	}
}

// tooLong lowers the path MTU: RFC 1191 section 6.3. What is in flight and too long goes again at once.
func (t *Table) tooLong(id ID, c *conn, mtu int) wire.Drop {
	switch {
	case !t.settingsOf(c).PathMTU, mtu >= max(int(c.pathMTU), int(c.probeMTU)):
		return wire.ICMPMTULarge
	case mtu >= int(c.pathMTU) && c.sender != 0: // only the probe was too long
		t.probeRefused(id, c, mtu)
		return wire.Accept
	case mtu < minMTU:
		return wire.ICMPMTU
	}
	before := c.payloadLimit()
	t.lowered(c, c.pathMTU)
	c.pathMTU = uint16(max(mtu, min(minPathMTU, int(c.pathMTU))))
	t.fitMSS(c)
	if c.sender != 0 && c.payloadLimit() < before {
		snd := t.senders[c.sender-1]
		for i := range snd.flight.len() {
			if r := snd.flight.at(i); int(r.payload.Length) > c.payloadLimit() && r.flags&(sentSACKed|sentLost) == 0 {
				snd.markLost(r)
			}
		}
		t.wake(id, c)
	}
	return wire.Accept
}

// SetPathMTU says that the path of a connection has another MTU, as the host's tables know it.
func (t *Table) SetPathMTU(now clock.Time, id ID, mtu int) {
	c := t.get(id)
	if c == nil || mtu < minMTU || mtu > 65535 {
		return
	}
	t.now = now
	c.pathMTU = uint16(mtu)
	c.flags &^= flagBlackHole | flagSuspected
	c.fullMTU, c.raiseAt = 0, 0 // what is known needs no probe
	t.fitMSS(c)
	t.wake(id, c)
}

// blackHoleAfter is after how many time-outs in a row a large segment is suspected: RFC 8899 section 4.3.
const blackHoleAfter = 3

// retrySize returns to the larger size when the episode is over: the time-outs may have been bad luck. The second time it does not, unless
// something of that size was acknowledged in between.
func (t *Table) retrySize(c *conn) {
	if c.has(flagBlackHole) && !c.has(flagSuspected) {
		c.flags = c.flags&^flagBlackHole | flagSuspected
		c.pathMTU = c.fullMTU
		t.fitMSS(c)
	}
}

// blackHole lowers the segment size after several time-outs in a row of a large segment, for which no ICMP error has come: RFC 8899 section 4.3,
// RFC 2923 section 2.1.
func (t *Table) blackHole(c *conn) {
	snd := t.senders[c.sender-1]
	if c.tries < blackHoleAfter || c.wnd == 0 || !t.settingsOf(c).PathMTU || c.pathMTU <= minPathMTU ||
		int(snd.flight.at(0).payload.Length) <= minPathMTU-wire.IPv4Len-wire.TCPLen-timestampsLen { // it fits the least path
		return
	}
	t.stats.BlackHoles++
	c.flags |= flagBlackHole
	t.lowered(c, c.pathMTU)
	c.pathMTU = max(c.pathMTU/2, minPathMTU)
	if c.tries > blackHoleAfter+1 {
		c.pathMTU = minPathMTU
	}
	t.fitMSS(c)
}
