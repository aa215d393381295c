package udp

import (
	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Policy says what is done with a datagram whose checksum is not right: the link's, as TCP's is.
type Policy = ip.ChecksumPolicy

// The policies.
const (
	Strict        = ip.ChecksumStrict        // a wrong sum is dropped, and so is one that is only the pseudo header's
	AcceptPartial = ip.ChecksumAcceptPartial // the latter is taken for right: a kernel on this machine leaves it so, over veth or tap
	Off           = ip.ChecksumOff           // nothing is checked
)

// Input receives the UDP datagrams of a burst: it looks up the sockets of all of them, and then verifies and delivers each.
func (u *Protocol) Input(now clock.Time, b *ip.Burst) {
	u.chooseTable()
	u.ids = u.ids[:0]
	for n := range b.Packets {
		if p := &b.Packets[n]; p.Protocol == wire.ProtocolUDP {
			u.lookUp(p)
		}
	}
	for n := range b.Packets {
		if b.Packets[n].Protocol == wire.ProtocolUDP {
			u.deliverDatagram(now, b, n)
		}
	}
}

// lookUp finds the sockets of a datagram, before its lengths and checksum are verified. The socket of a unicast one is Parsed.First, those of
// others are Parsed.Count entries of the list ids from there on. Without a socket Parsed.Drop is the reason.
func (u *Protocol) lookUp(p *ip.Parsed) {
	segment := p.Payload()
	p.First, p.Count = int32(len(u.ids)), 0
	if len(segment) < wire.UDPLen {
		p.Drop = wire.UDPShort
		return
	}
	h := (*wire.UDP)(segment)
	p.Flow.SourcePort, p.Flow.TargetPort = h.SourcePort(), h.TargetPort()
	switch {
	case p.To == ip.AddressLocal:
		var id ID
		id, p.Drop = u.lookup.Unicast(&p.Flow)
		p.First = int32(id)
		return
	case p.To == ip.AddressBroadcast:
		u.ids, p.Drop = u.lookup.Broadcast(&p.Flow, u.ids)
	case !u.lookup.Joined(p.Flow.Target, p.Flow.Interface):
		p.Drop = wire.UDPGroupNotJoined
	default:
		u.ids, p.Drop = u.lookup.Multicast(&p.Flow, u.ids)
	}
	p.Count = int32(len(u.ids)) - p.First
}

// deliverDatagram verifies datagram n of the burst and delivers it to the sockets that lookUp has found, or drops and counts it. If it is the
// first of the burst, and of one socket that had it at once, its flow is remembered for the fast path.
func (u *Protocol) deliverDatagram(now clock.Time, b *ip.Burst, n int) {
	p, f := &b.Packets[n], &b.Frames[n]
	_, payload, partial, drop := Parse(p.IPv4(), p.Payload(), b.Checksum)
	if drop == wire.Accept && p.Drop != wire.Accept {
		if drop = p.Drop; drop == wire.UDPNoSocket {
			u.stack.SendPortUnreachable(now, b.Link, p)
		}
	}
	if drop != wire.Accept {
		p.Drop = drop
		u.drops[drop]++
		b.Release(n)
		return
	}
	if partial {
		u.stats.Partial++
	}
	before, off, lost := len(u.deliveries), p.PayloadOffset()+wire.UDPLen, u.drops[wire.UDPBudget]
	switch {
	case u.snapshot != nil:
		u.deliverAmongStacks(f, p, payload, off)
	case p.To == ip.AddressLocal:
		u.deliver(ID(p.First), f, &p.Flow, payload, off, before)
	default:
		for _, id := range u.ids[p.First : p.First+p.Count] {
			u.deliver(id, f, &p.Flow, payload, off, before)
		}
	}
	one := p.To == ip.AddressLocal || p.Count == 1 // of several, those that do not read have it in their backlogs
	if n == 0 && u.snapshot == nil && one && len(u.deliveries) == before+1 {
		u.rememberFlow(b, p, u.deliveries[before].ID)
	}
	if len(u.deliveries) == before {
		_ = f.Packet.Release() // it was copied to the backlogs of its sockets, or found no room there
	}
	if u.drops[wire.UDPBudget] != lost {
		p.Drop = wire.UDPBudget // by one of its sockets at the least
	}
	f.Packet = buffers.Packet{}
}

// Parse reads the payload of an IPv4 packet that is not a fragment: lengths, port, checksum. partial reports that the sum was
// only the pseudo header's and was accepted.
func Parse(h4 *wire.IPv4, b []byte, p Policy) (h *wire.UDP, payload []byte, partial bool, d wire.Drop) {
	h, payload, d = wire.ParseUDP(b)
	if d != wire.Accept || p == Off {
		return h, payload, false, d
	}
	switch wire.CheckDatagram(h4, b[:wire.UDPLen+len(payload)]) {
	case wire.SumGood, wire.SumNone:
		return h, payload, false, wire.Accept
	case wire.SumPartial:
		if p == AcceptPartial {
			return h, payload, true, wire.Accept
		}
		return nil, nil, false, wire.UDPPartial
	}
	return nil, nil, false, wire.UDPSum
}
