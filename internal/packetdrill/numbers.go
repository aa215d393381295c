package packetdrill

import "slices"

// numbers translates between the numbers of a script and those of the subject. What the peer sends is moved by a fixed distance, so that a
// script can be played with sequence numbers that wrap. What the subject sends is moved by what its SYN shows.
type numbers struct {
	remote uint32 // subject's number = script's + remote, for the peer's sequence numbers
	local  uint32 // the same for the subject's
	known  bool   // local was learned
	fresh  bool   // a new connection may begin: the next SYN of the subject sets local again
	peer   uint32 // the sequence number of the peer's last SYN, if there was one
	opened bool

	stampOf  map[uint32]uint32 // the subject's timestamp for each of the script's
	baseOf   uint32            // the first of the script's timestamps, and of the subject's
	baseLive uint32
}

// learn stores the subject's initial sequence number, from the SYN that the script expects.
func (m *numbers) learn(script *Segment, p *Packet) {
	if p.Flags&SYN != 0 && script.Flags&SYN != 0 && (!m.known || m.fresh) {
		m.local, m.known, m.fresh = p.Seq-script.Seq, true, false
	}
}

// inbound converts a segment of the script to the subject's sequence numbers.
func (m *numbers) inbound(s *Segment) Packet {
	p := s.Packet
	if p.Flags&(SYN|ACK) == SYN {
		m.fresh = m.fresh || m.opened && p.Seq != m.peer
		m.peer, m.opened = p.Seq, true
	}
	p.Seq += m.remote
	if s.HasAck {
		p.Ack += m.local
	}
	p.Options = slices.Clone(p.Options)
	for i := range p.Options {
		switch o := &p.Options[i]; o.Kind {
		case OptionSACK:
			o.Blocks = shift(o.Blocks, m.local)
		case OptionTimestamps:
			if s.HasAck {
				o.Ecr = m.liveStamp(o.Ecr)
			}
		}
	}
	return p
}

// outbound converts a segment of the subject to the script's sequence numbers. Its timestamp is not converted: matchStamp compares that.
func (m *numbers) outbound(p Packet) Packet {
	p.Seq -= m.local
	if p.Flags&ACK != 0 {
		p.Ack -= m.remote
	}
	p.Options = slices.Clone(p.Options)
	for i := range p.Options {
		if o := &p.Options[i]; o.Kind == OptionSACK {
			o.Blocks = shift(o.Blocks, -m.remote)
		}
	}
	return p
}

// shift returns SACK blocks moved by an amount.
func shift(blocks [][2]uint32, by uint32) [][2]uint32 {
	moved := make([][2]uint32, len(blocks))
	for i, b := range blocks {
		moved[i] = [2]uint32{b[0] + by, b[1] + by}
	}
	return moved
}

// liveStamp returns the subject's timestamp for one of the script's, which the peer echoes.
func (m *numbers) liveStamp(script uint32) uint32 {
	if live, ok := m.stampOf[script]; ok {
		return live
	}
	if m.stampOf == nil {
		return script
	}
	return script - m.baseOf + m.baseLive
}

// matchStamp reports whether a timestamp of the subject can be the script's, and pairs the first two. With exact the distance from the first
// pair must be the same.
func (m *numbers) matchStamp(script, live uint32, exact bool) bool {
	if m.stampOf == nil {
		m.stampOf = map[uint32]uint32{}
		m.baseOf, m.baseLive = script, live
	}
	if exact {
		return live-m.baseLive == script-m.baseOf
	}
	if known, ok := m.stampOf[script]; ok {
		return known == live
	}
	m.stampOf[script] = live
	return true
}
