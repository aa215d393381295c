package stream

import (
	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// Input takes the segments of a burst. The clock is read once for them: round-trip times are made of it.
func (t *Transport) Input(_ clock.Time, b *ip.Burst) {
	now := t.clock()
	if len(b.Packets) > 1 && t.table.Len() >= fetchFrom {
		t.fetch(b)
	}
	for n := range b.Packets {
		if p := &b.Packets[n]; p.Protocol == wire.ProtocolTCP && !b.Frames[n].Packet.IsZero() { // zero: it went to another ring
			if d := t.input(now, b, n); d != wire.Accept {
				p.Drop = d
				t.drops[d]++
			}
			if !b.Frames[n].Packet.IsZero() {
				b.Release(n)
			}
		}
	}
}

// input verifies and parses segment n of the burst and gives it to the table. If the table keeps the segment's data, the frame is removed from
// the burst, so that the caller does not release it. The result is why the segment was dropped, or wire.Accept.
func (t *Transport) input(now clock.Time, b *ip.Burst, n int) wire.Drop {
	p := &b.Packets[n]
	d, partial := checkSum(p, b.Checksum)
	if partial {
		t.stats.Partial++
	}
	s := &t.segment
	*s = tcp.Segment{}
	if d == wire.Accept {
		d = s.Parse(p.Flow.Source, p.Flow.Target, p.Payload(), unnamed, p.PayloadOffset())
	}
	if d != wire.Accept {
		return d
	}
	s.ECN, s.Group = tcp.ECN(p.IPv4().TOS()&3), !isHost(p.To, p)
	kept, d := t.arrive(now, s, b.Frames[n].Packet)
	if kept {
		b.Frames[n].Packet = buffers.Packet{}
	}
	return d
}

// unnamed is the buffer of a parsed segment until arrive gives its frame a number.
const unnamed tcp.Buffer = 0

// arrive gives a segment to the table. A frame with payload gets a number, by which the table names it in its events. kept: the table has kept
// the payload, and the frame stays until an event delivers or drops it; otherwise the caller releases it.
func (t *Transport) arrive(now clock.Time, s *tcp.Segment, frame buffers.Packet) (kept bool, d wire.Drop) {
	if s.Flags&(wire.TCPSyn|wire.TCPAck) == wire.TCPSyn && t.transit.leavesPort(s.Local) && !t.table.IsHere(s.Local, s.Remote) && !t.listensAt(s.Local) {
		return false, wire.TCPNoConnection // unanswered: the client sends it again, and then it reaches the kernel
	}
	if s.Payload.Length == 0 {
		return t.table.Input(now, s)
	}
	k := t.newArrival()
	s.Payload.Buffer = tcp.Buffer(k)
	if kept, d = t.table.Input(now, s); kept {
		t.arrivals[k].packet = frame
	} else {
		t.freeArrivalPlace(k)
	}
	return kept, d
}

// looping parses a packet that addLoop made and gives its segment to the table. kept: as of arrive.
func (t *Transport) looping(now clock.Time, p buffers.Packet) (kept bool) {
	h, _, payload, d := wire.ParseIPv4(p.Bytes())
	if d != wire.Accept {
		return false
	}
	s := &t.segment
	*s = tcp.Segment{}
	if s.Parse(h.Source(), h.Target(), payload, unnamed, h.HeaderLen()) != wire.Accept {
		return false
	}
	s.ECN = tcp.ECN(h.TOS() & 3)
	kept, _ = t.arrive(now, s, p)
	return kept
}

// checkSum verifies a segment's checksum as the policy of its link says. partial: it is the pseudo header's only, and was accepted.
func checkSum(p *ip.Parsed, policy ip.ChecksumPolicy) (d wire.Drop, partial bool) {
	b := p.Payload()
	switch {
	case len(b) < wire.TCPLen:
		return wire.TCPShort, false
	case policy == ip.ChecksumOff:
		return wire.Accept, false
	}
	switch wire.CheckTCP(p.IPv4(), b) {
	case wire.SumGood:
		return wire.Accept, false
	case wire.SumPartial:
		if policy == ip.ChecksumAcceptPartial {
			return wire.Accept, true
		}
		return wire.TCPPartial, false
	}
	return wire.TCPSum, false
}

// Verify proves a segment that came in for the transport of another ring: its checksum, as the policy of its link says, and that it was for one
// host, from one host. InputCopy of that transport takes its packet.
func Verify(p *ip.Parsed, policy ip.ChecksumPolicy) wire.Drop {
	d, _ := checkSum(p, policy)
	if d == wire.Accept && !isHost(p.To, p) {
		return wire.TCPGroup
	}
	return d
}

// InputCopy takes the IPv4 packet of a segment that another ring has received and verified. The bytes are copied if they are kept.
func (t *Transport) InputCopy(packet []byte) {
	h, _, payload, d := wire.ParseIPv4(packet)
	s := &t.segment
	*s = tcp.Segment{}
	if d == wire.Accept {
		d = s.Parse(h.Source(), h.Target(), payload, unnamed, h.HeaderLen())
	}
	if d != wire.Accept {
		t.drops[d]++
		return
	}
	s.ECN = tcp.ECN(h.TOS() & 3)
	var frame buffers.Packet
	if s.Payload.Length > 0 {
		if frame = t.CopyPacket(packet); frame.IsZero() {
			t.stats.NoBuffer++ // lost, as on the wire: the peer sends it again
			return
		}
	}
	kept, d := t.arrive(t.clock(), s, frame)
	if d != wire.Accept {
		t.drops[d]++
	}
	if !kept && !frame.IsZero() {
		_ = frame.Release() // alone
	}
}

// GiveWay ends a connection in TIME-WAIT for a SYN that begins a new one of the same addresses, if another ring listens for it: see
// tcp.Table.GiveWay. The SYN is the other ring's then.
func (t *Transport) GiveWay(now clock.Time, p *ip.Parsed, policy ip.ChecksumPolicy) {
	var s tcp.Segment
	if t.table.TimeWaits() > 0 && Verify(p, policy) == wire.Accept && s.Parse(p.Flow.Source, p.Flow.Target, p.Payload(), 0, 0) == wire.Accept {
		t.table.GiveWay(now, &s)
	}
}

// GiveWayCopy is GiveWay for a packet that another ring has received.
func (t *Transport) GiveWayCopy(now clock.Time, packet []byte) {
	if h, _, payload, d := wire.ParseIPv4(packet); d == wire.Accept && t.table.TimeWaits() > 0 {
		var s tcp.Segment
		if s.Parse(h.Source(), h.Target(), payload, 0, 0) == wire.Accept {
			t.table.GiveWay(now, &s)
		}
	}
}

// CopyPacket copies a packet into a buffer of the pool, a large one if it does not fit a small one, or none of those is free; the zero Packet if
// there is no buffer.
func (t *Transport) CopyPacket(packet []byte) buffers.Packet {
	headroom := t.pool.Layout().Headroom
	for _, class := range [...]buffers.Class{buffers.Small, buffers.Large} {
		if class == buffers.Small && len(packet) > t.pool.Layout().SmallSize {
			continue
		}
		i, ok := t.pool.TakeForCopy(class)
		if !ok {
			t.copyFailed = true
			continue
		}
		room := t.pool.Memory(i)[headroom:]
		if len(packet) <= len(room) {
			return t.pool.Fill(i, headroom, copy(room, packet), 0)
		}
		t.pool.Return(i)
	}
	return buffers.Packet{}
}

// MakeRoom is called once a turn. When somebody went without a buffer since the last call, and few lie ready for what comes or a segment could
// not be copied, half of the data beyond gaps is discarded: what fills the gaps, and other connections, could be waiting for those buffers.
func (t *Transport) MakeRoom() {
	if x := t.pool.Exhausted(); x != t.exhausted {
		t.exhausted = x
		short := t.copyFailed || t.pool.IsShort()
		t.copyFailed = false
		if n := t.table.OutOfOrder(); n > 0 && short {
			t.table.Renege((n + 1) / 2)
			t.takeEvents()
		}
	}
}

// Error gives the table an ICMP error that quotes a segment of ours: the quoted addresses, and the sequence number, by which the table rejects
// an error that is not about a segment in flight (RFC 5927 section 4.1).
func (t *Transport) Error(now clock.Time, e ip.ICMPError) wire.Drop {
	q := e.Quote.Transport
	if len(q) < 8 { // ports and sequence number, which every ICMP error quotes (RFC 792)
		return wire.ICMPNoSocket
	}
	if e.NoNeighbour { // no frame came: the caller's time may be older than the table's
		now = t.clock()
	}
	seq := tcp.Seq(uint32(q[4])<<24 | uint32(q[5])<<16 | uint32(q[6])<<8 | uint32(q[7]))
	// The flow is that of the peer's answers: its target is this host.
	return t.table.Error(now, tcp.NetworkError{Local: tcp.Endpoint{Addr: e.Flow.Target, Port: e.Flow.TargetPort},
		Remote: tcp.Endpoint{Addr: e.Flow.Source, Port: e.Flow.SourcePort}, Type: e.Type, Code: e.Code, MTU: e.MTU, NoNeighbour: e.NoNeighbour, Seq: seq})
}

// Changed has nothing to do: routes are compared before each use, and a segment that has become too long finds out when it is sent.
func (t *Transport) Changed(ip.Change) {}
