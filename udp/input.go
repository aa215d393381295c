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

// Delivery is a datagram for a socket.
type Delivery struct {
	Packet buffers.Packet // received; shared when several sockets get it
	ID     ID
	Owner  uint64
	Flow   Flow
	Nanos  int64 // as the frame's
	Clock  ip.Clock
	// To is 0 for sockets of this stack. Otherwise the datagram is for the stack of this number in the directory, which gets it by
	// TakeHandoff; with an Owner of 0 it is for whatever members of the group that one has.
	To int32
}

// Deliveries are the datagrams for sockets since the last ClearDeliveries, in order.
func (u *Protocol) Deliveries() []Delivery { return u.deliveries }

// ClearDeliveries forgets the deliveries: their packets are the caller's.
func (u *Protocol) ClearDeliveries() { u.deliveries = u.deliveries[:0] }

// Input takes the datagrams of a burst.
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
			u.datagram(now, b, n)
		}
	}
}

// lookUp finds the sockets of a datagram whose lengths and sum are not proven yet: a unicast one's is Parsed.First, those of others are
// Parsed.Count of the list ids from there on. Without a socket the datagram has a Parsed.Drop.
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

// datagram proves a datagram and delivers it to its sockets.
func (u *Protocol) datagram(now clock.Time, b *ip.Burst, n int) {
	p, f := &b.Packets[n], &b.Frames[n]
	_, payload, partial, drop := Parse(p.IPv4(), p.Payload(), b.Checksum)
	if drop == wire.Accept && p.Drop != wire.Accept {
		if drop = p.Drop; drop == wire.UDPNoSocket {
			u.stack.SendPortUnreachable(now, b.Link, p)
		}
	}
	if drop != wire.Accept {
		u.drops[drop]++
		b.Release(n)
		return
	}
	if partial {
		u.stats.Partial++
	}
	before, off := len(u.deliveries), p.PayloadOffset()+wire.UDPLen
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
	if len(u.deliveries) == before {
		_ = f.Packet.Release() // it was copied to the backlogs of its sockets, or found no room there
	}
	f.Packet = buffers.Packet{}
}

// Parse reads the payload of an IPv4 packet that is not a fragment: lengths, port, checksum. partial tells that the sum was
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

// deliver delivers a datagram to one socket; before is how many deliveries there were before the datagram's. The first socket that gets the
// packet is charged for it, the others have a reference.
func (u *Protocol) deliver(id ID, f *ip.Frame, flow *Flow, payload []byte, off, before int) {
	owner, account, stopped := u.table.Receiver(id)
	if stopped {
		u.addToBacklog(id, flow, payload, f.Nanos, f.Source)
		return
	}
	if len(u.deliveries) == before {
		u.pool.Narrow(f.Packet, off, len(payload), account)
	} else if f.Packet.Retain() != nil { // 65,535 members
		u.countLost(id)
		return
	}
	u.stats.Delivered++
	u.deliveries = append(u.deliveries, Delivery{})
	d := &u.deliveries[len(u.deliveries)-1] // in place: one put together elsewhere is copied
	d.Packet, d.ID, d.Owner, d.Flow, d.Nanos, d.Clock, d.To = f.Packet, id, owner, *flow, f.Nanos, f.Source, 0
}

// SocketError is an error for a connected socket, from an ICMP message.
type SocketError struct {
	Owner uint64
	Errno ip.Errno
}

// Errors are the errors for sockets, until the next ClearErrors.
func (u *Protocol) Errors() []SocketError { return u.errors }

// ClearErrors empties the list.
func (u *Protocol) ClearErrors() { u.errors = u.errors[:0] }

// Error finds the socket that has sent the packet of an ICMP error.
func (u *Protocol) Error(_ clock.Time, e ip.ICMPError) wire.Drop {
	id, d := u.table.Unicast(&e.Flow)
	if d != wire.Accept {
		return wire.ICMPNoSocket
	}
	if e.Errno != 0 {
		u.fail(id, e.Errno)
	}
	return wire.Accept
}

// fail raises an error on a connected socket. One that is not connected sends to many: an error says nothing that it could use
// (RFC 1122 section 4.1.3.3; udp_err of the kernel).
func (u *Protocol) fail(id ID, e ip.Errno) {
	if !u.table.Endpoint(id).Remote.IsZero() {
		u.errors = append(u.errors, SocketError{Owner: u.table.Owner(id), Errno: e})
	}
}
