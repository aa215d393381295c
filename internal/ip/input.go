package ip

import (
	"math/bits"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// The passes of Input over a burst (Parsed.turn): frames that are dropped, frames that the stack reads itself, then one pass for each protocol.
const (
	turnDrop uint8 = 1 << iota
	turnControl
	turnProtocol
)

// Kinds of control message, in Parsed.First.
const (
	controlARP int32 = iota
	controlICMP
	controlIGMP
)

// Input receives frames of link i, MaxBurst at most: it reads the headers of all, calls each protocol that has packets among them once, and then
// handles control messages and drops. The caller must not use the frames' packets afterwards: protocols deliver them, or they are released.
func (s *Stack) Input(now clock.Time, i int, frames []Frame) {
	s.now = now
	b := &s.burst
	b.Link, b.Checksum = i, s.links[i].Checksum
	b.Frames = frames[:min(len(frames), MaxBurst)]
	b.Packets = b.parsed[:len(b.Frames)]
	turns := uint8(0)
	for n := range b.Frames {
		p := &b.parsed[n]
		var whole bool
		if p.Frame, whole = s.pool.View(b.Frames[n].Packet); !whole {
			whole = s.gather(&b.Frames[n])
			p.Frame = b.Frames[n].Packet.Bytes()
		}
		p.Protocol = 0
		if p.Drop = s.parse(&s.links[i].Interface, p); p.Drop != wire.Accept {
			p.turn = turnDrop
			if !whole && p.Drop == wire.IPv4TotalLong && !s.parseChain(i, n) { // what is missing is in the buffers behind the first
				s.stats.NoBuffer++
				p.Drop = wire.Accept // it is counted already
			}
		}
		turns |= p.turn
	}
	for t := turns / turnProtocol; t != 0; t &= t - 1 { // one bit for each protocol that has packets
		s.protocols[bits.TrailingZeros8(t)].Input(now, b)
	}
	if turns&(turnDrop|turnControl) != 0 {
		s.controlMessages(now, b)
	}
}

// parse reads the headers of a frame that came by interface in, up to IPv4's, and decides which pass of Input handles it (Parsed.turn). It
// returns the reason to drop the frame, Accept for none.
func (s *Stack) parse(in *Interface, p *Parsed) wire.Drop {
	eth, tag, typ, rest, drop := wire.ParseEthernet(p.Frame)
	if drop != wire.Accept {
		return drop
	}
	if drop = tag.Expect(in.VLAN ^ in.vlanDown); drop != wire.Accept { // while the VLAN is down no tag is the expected one
		if in = s.interfaceForTag(in, tag); in == nil {
			return drop
		}
	}
	target := eth.Target()
	if p.LinkGroup = target.IsGroup(); !p.LinkGroup && target != in.MAC {
		return wire.EthernetNotOurs
	}
	if in.Member >= MemberInactive && (p.LinkGroup || in.Member == MemberBackup) {
		return wire.EthernetInactive
	}
	switch {
	case typ == wire.TypeIPv4:
	case typ == wire.TypeARP && s.localHost != nil:
		p.turn, p.First, p.net = turnControl, controlARP, uint8(len(p.Frame)-len(rest))
		return wire.Accept
	default:
		return wire.EthernetType
	}
	ip, _, _, drop := wire.ParseIPv4(rest)
	if drop != wire.Accept {
		return drop
	}
	net := len(p.Frame) - len(rest)
	p.net, p.payload, p.end = uint8(net), uint8(net+ip.HeaderLen()), uint32(net+ip.TotalLen())
	p.Flow.Source, p.Flow.Target, p.Flow.Interface = ip.Source(), ip.Target(), uint32(in.Index)
	p.To = s.AddressKind(p.Flow.Target, p.Flow.Interface)
	const loopback = false // no link is the loopback interface
	drop = ip.Addresses(loopback, p.LinkGroup && p.To != AddressBroadcast)
	switch {
	case drop != wire.Accept:
		return drop
	case ip.IsFragment():
		return wire.IPv4Fragment
	case p.To == AddressOther && !p.Flow.Target.IsMulticast():
		return wire.IPv4NotOurs
	case s.AddressKind(p.Flow.Source, p.Flow.Interface) != AddressOther:
		return wire.IPv4SourceOurs
	}
	number := ip.Protocol()
	if slot := s.slots[number]; slot != 0 {
		p.Protocol, p.turn = number, turnProtocol<<(slot-1)
		return wire.Accept
	}
	switch {
	case number == wire.ProtocolICMP && s.localHost != nil:
		p.turn, p.First = turnControl, controlICMP
	case number == wire.ProtocolIGMP && s.localHost != nil:
		p.turn, p.First = turnControl, controlIGMP
	default:
		return wire.IPv4Protocol
	}
	return wire.Accept
}

// controlMessages handles the frames of a burst that go to no protocol: it reads control messages (ARP, ICMP, IGMP), counts every drop by its
// reason, and releases the packets.
func (s *Stack) controlMessages(now clock.Time, b *Burst) {
	for n := range b.Packets {
		p := &b.Packets[n]
		switch p.turn {
		case turnControl:
			switch p.First {
			case controlARP:
				p.Drop = s.arp(now, b.Link, p)
			case controlICMP:
				p.Drop = s.icmp(now, b.Link, p)
			case controlIGMP:
				p.Drop = s.igmpInput(now, b.Link, p)
			}
		case turnDrop: // Input has set Drop; Accept: it has counted the frame
		default:
			continue // a protocol has handled it
		}
		if p.Drop != wire.Accept {
			s.drops[p.Drop]++
		}
		b.Release(n)
	}
}

// gather copies a frame that spans buffers into a large one. When none is free it returns false, and only the frame's first buffer is parsed: an
// IP packet that ends in it, with padding behind, is received all the same, and a segment of TCP too (parseChain).
func (s *Stack) gather(f *Frame) bool {
	n := f.Packet.Len()
	i, ok := s.pool.Take(buffers.Large)
	if !ok {
		return false
	}
	// The largest frame is longer than the largest payload by its headers: they go into the headroom.
	const headers = 64
	off := max(0, s.pool.Layout().Headroom-headers)
	if m := s.pool.Memory(i); off+n <= len(m) {
		f.Packet.CopyTo(m[off : off+n])
		_ = f.Packet.Release() // received, alone
		f.Packet = s.pool.Fill(i, off, n, 0)
		s.stats.Gathered++
		return true
	}
	s.pool.Return(i)
	return false
}

// parseChain parses frame n of the burst, which spans buffers, in a copy: Parsed refers to the copy, and the packet stays the chain. Only TCP
// takes such packets, so that bulk transfers go on without large buffers; false for others.
func (s *Stack) parseChain(link, n int) bool {
	f, p := s.burst.Frames[n].Packet, &s.burst.parsed[n]
	first, size := p.Frame, f.Len()
	if len(s.chains[n]) < size {
		s.chains[n] = make([]byte, max(size, 16<<10))
	}
	p.Frame = s.chains[n][:size]
	f.CopyTo(p.Frame)
	p.Drop = s.parse(&s.links[link].Interface, p)
	switch {
	case p.Drop != wire.Accept:
		p.turn = turnDrop
	case p.Protocol != wire.ProtocolTCP:
		p.Frame, p.Protocol, p.turn = first, 0, turnDrop
		return false
	}
	return true
}

// CountNoBuffer counts a frame that a protocol has dropped because it had no buffer for it.
func (s *Stack) CountNoBuffer() { s.stats.NoBuffer++ }
