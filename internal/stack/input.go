package stack

import (
	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/udp"
)

// Frame is a received frame. Its packet is received, charged to nobody, and the stack's from here on.
type Frame struct {
	Packet buffers.Packet
	Nanos  int64 // handed through to the delivery, with the clock
	Clock  uint8
}

// look is what the first pass over a burst found out about a frame.
type look struct {
	flow     udp.Flow
	kind     kind
	drop     wire.Drop
	group    bool   // the frame was for more than one station
	bytes    []byte // the frame, which lies in one buffer
	net, end uint32 // where the IPv4 packet begins and ends
	segment  uint32 // where its payload begins
	first    int32  // a socket; of groups and broadcasts the place in ids
	count    int32
}

type kind uint8

const (
	isDropped kind = iota
	isUnicast
	isGroup
	isNobody // a datagram without a socket: looked at once more, because it may be answered
	isARP
	isICMP
	isIGMP
)

// Input takes frames of one link, MaxBurst at most, and appends the datagrams in them to dst, in order.
func (s *Stack) Input(now clock.Time, i int, frames []Frame, dst []Delivery) []Delivery {
	s.now = now
	s.lookInto()
	frames = frames[:min(len(frames), MaxBurst)]
	s.ids = s.ids[:0]
	for n := range frames {
		l := &s.looks[n]
		var whole bool
		if l.bytes, whole = s.pool.View(frames[n].Packet); !whole {
			s.gather(&frames[n])
			l.bytes = frames[n].Packet.Bytes()
		}
		s.look(&s.links[i].Interface, l.bytes, l)
	}
	for n := range frames {
		f, l := &frames[n], &s.looks[n]
		switch l.kind {
		case isUnicast, isGroup, isNobody:
			dst = s.datagram(now, i, f, l, dst)
			continue
		case isARP:
			l.drop = s.arp(now, i, f.Packet.Bytes())
		case isICMP:
			l.drop = s.icmp(now, i, f.Packet.Bytes(), l)
		case isIGMP:
			l.drop = s.igmpInput(now, i, f.Packet.Bytes(), l)
		}
		if l.drop != wire.Accept {
			s.drops[l.drop]++
		}
		_ = f.Packet.Release() // received, alone
		f.Packet = buffers.Packet{}
	}
	return dst
}

// look reads the headers and finds the sockets.
func (s *Stack) look(in *Interface, b []byte, l *look) {
	l.kind, l.count = isDropped, 0
	eth, tag, typ, rest, drop := wire.ParseEthernet(b)
	if l.drop = drop; drop != wire.Accept {
		return
	}
	if l.drop = tag.Expect(in.VLAN ^ in.deaf); l.drop != wire.Accept {
		if in = s.tagged(in, tag); in == nil {
			return
		}
		l.drop = wire.Accept
	}
	target := eth.Target()
	if l.group = target.IsGroup(); !l.group && target != in.MAC {
		l.drop = wire.EthernetNotOurs
		return
	}
	if in.Member >= MemberInactive && (l.group || in.Member == MemberBackup) {
		l.drop = wire.EthernetInactive
		return
	}
	switch {
	case typ == wire.TypeIPv4:
	case typ == wire.TypeARP && s.own != nil:
		l.kind = isARP
		return
	default:
		l.drop = wire.EthernetType
		return
	}
	ip, _, payload, drop := wire.ParseIPv4(rest)
	if l.drop = drop; drop != wire.Accept {
		return
	}
	l.net = uint32(len(b) - len(rest))
	l.end = l.net + uint32(ip.TotalLen())
	l.segment = l.net + uint32(ip.HeaderLen())
	l.flow.Source, l.flow.Target, l.flow.Interface = ip.Source(), ip.Target(), uint32(in.Index)
	to := s.kindOf(l.flow.Target, l.flow.Interface)
	switch l.drop = ip.Addresses(false, l.group && to != addrBroadcast); {
	case l.drop != wire.Accept:
	case ip.IsFragment():
		l.drop = wire.IPv4Fragment
	case to == addrForeign && !l.flow.Target.IsMulticast():
		l.drop = wire.IPv4NotOurs
	case s.kindOf(l.flow.Source, l.flow.Interface) != addrForeign:
		l.drop = wire.IPv4SourceOurs
	case ip.Protocol() == wire.ProtocolUDP:
		s.lookUDP(payload, l, to)
	case ip.Protocol() == wire.ProtocolICMP && s.own != nil:
		l.kind = isICMP
	case ip.Protocol() == wire.ProtocolIGMP && s.own != nil:
		l.kind = isIGMP
	default:
		l.drop = wire.IPv4Protocol
	}
}

// lookUDP finds the sockets of a datagram whose lengths and sum are not proven yet.
func (s *Stack) lookUDP(payload []byte, l *look, to uint8) {
	if len(payload) < wire.UDPLen {
		l.drop = wire.UDPShort
		return
	}
	h := (*wire.UDP)(payload)
	l.flow.SourcePort, l.flow.TargetPort = h.SourcePort(), h.TargetPort()
	if to == addrOurs {
		var id udp.ID
		if id, l.drop = s.all.Unicast(&l.flow); l.drop != wire.Accept {
			l.kind = isNobody
			return
		}
		l.kind, l.first = isUnicast, int32(id)
		return
	}
	at := len(s.ids)
	if to == addrBroadcast {
		s.ids, l.drop = s.all.Broadcast(&l.flow, s.ids)
	} else if !s.all.Joined(l.flow.Target, l.flow.Interface) {
		l.drop = wire.UDPGroupNotJoined
	} else {
		s.ids, l.drop = s.all.Multicast(&l.flow, s.ids)
	}
	l.kind, l.first, l.count = isGroup, int32(at), int32(len(s.ids)-at)
	if l.drop != wire.Accept {
		l.kind = isNobody
	}
}

// datagram proves a datagram and gives it to its sockets.
func (s *Stack) datagram(now clock.Time, i int, f *Frame, l *look, dst []Delivery) []Delivery {
	b := l.bytes
	ip := (*wire.IPv4)(b[l.net:])
	_, payload, partial, drop := udp.Parse(ip, b[l.segment:l.end], s.links[i].Checksum)
	if drop == wire.Accept && l.kind == isNobody {
		if drop = l.drop; s.own != nil && drop == wire.UDPNoSocket {
			s.unreachable(now, i, b, l)
		}
	}
	if drop != wire.Accept {
		s.drops[drop]++
		_ = f.Packet.Release() // received, alone
		f.Packet = buffers.Packet{}
		return dst
	}
	if partial {
		s.stats.Partial++
	}
	n := len(dst)
	if s.book != nil {
		dst = s.among(f, l, payload, dst)
	} else if l.kind == isUnicast {
		dst = s.deliver(udp.ID(l.first), f, l, payload, int(l.segment)+wire.UDPLen, dst, n)
	} else {
		for _, id := range s.ids[l.first : l.first+l.count] {
			dst = s.deliver(id, f, l, payload, int(l.segment)+wire.UDPLen, dst, n)
		}
	}
	if len(dst) == n {
		_ = f.Packet.Release() // all its sockets keep a copy, or none had room for one
	}
	f.Packet = buffers.Packet{}
	return dst
}

// deliver gives a datagram to one socket; the first that gets the packet itself pays for it, the others have a reference.
func (s *Stack) deliver(id udp.ID, f *Frame, l *look, payload []byte, off int, dst []Delivery, n int) []Delivery {
	owner, account, stopped := s.udp.Receiver(id)
	if stopped {
		s.keep(id, &l.flow, payload, f.Nanos, f.Clock)
		return dst
	}
	if len(dst) == n {
		s.pool.Narrow(f.Packet, off, len(payload), account)
	} else if f.Packet.Retain() != nil { // 65,535 members
		s.count(id)
		return dst
	}
	s.stats.Delivered++
	dst = append(dst, Delivery{})
	d := &dst[len(dst)-1] // in place: one put together elsewhere is copied
	d.Packet, d.ID, d.Owner, d.Flow, d.Nanos, d.Clock, d.To = f.Packet, id, owner, l.flow, f.Nanos, f.Clock, 0
	return dst
}

// Stop says that the socket does not read: what comes for it is kept. Without it, Release of what was kept is by Next.
func (s *Stack) Stop(id udp.ID, on bool) { s.udp.Stop(id, on || s.sockets[id].backlog.Len() > 0) }

// Hears tells whether a socket that has this port and address is to have a datagram of a group: it has joined, from this source, or takes
// those of groups that it did not join.
func (s *Stack) Hears(id udp.ID, group, source wire.Addr, iface uint32) bool {
	return s.udp.Passes(id, &udp.Flow{Source: source, Target: group, Interface: iface})
}

// Kept is the number of datagrams that are kept for the socket. While there are any, new ones queue behind them.
func (s *Stack) Kept(id udp.ID) int { return s.sockets[id].backlog.Len() }

// Next takes the oldest of the kept datagrams out, in a buffer of the pool: false when there is none, or no buffer for it.
func (s *Stack) Next(id udp.ID) (d Delivery, ok bool) {
	r := &s.sockets[id]
	h, ok := r.backlog.Peek()
	if !ok {
		return d, false
	}
	p, room := s.spare(id, h.Len)
	if p.IsZero() {
		return d, false
	}
	r.backlog.Take(room)
	s.stats.Delivered++
	return Delivery{Packet: p, ID: id, Owner: s.udp.Owner(id), Flow: h.Flow, Nanos: h.Nanos, Clock: h.Clock}, true
}

// fresh is a received packet of n bytes to be written to; zero when no buffer is free.
func (s *Stack) fresh(n int, a buffers.Account) (p buffers.Packet, room []byte) {
	l := s.pool.Layout()
	class := buffers.Small
	if n > l.SmallSize {
		class = buffers.Large
	}
	return s.freshOf(class, n, a)
}

func (s *Stack) freshOf(class buffers.Class, n int, a buffers.Account) (p buffers.Packet, room []byte) {
	l := s.pool.Layout()
	i, ok := s.pool.Take(class)
	if !ok {
		return p, nil
	}
	m := s.pool.Memory(i)
	if l.Headroom+n > len(m) {
		s.pool.Untake(i)
		return p, nil
	}
	return s.pool.Fill(i, l.Headroom, n, a), m[l.Headroom : l.Headroom+n]
}

// keep copies a datagram into the socket's backlog.
func (s *Stack) keep(id udp.ID, f *udp.Flow, payload []byte, nanos int64, clock uint8) {
	if s.sockets[id].backlog.Put(&udp.Held{Flow: *f, Nanos: nanos, Clock: clock}, payload) {
		s.stats.Backlogged++
		return
	}
	s.count(id)
}

func (s *Stack) count(id udp.ID) {
	s.sockets[id].dropped++
	s.drops[wire.UDPBudget]++
}

// gather copies a frame that spans buffers into a large one. Without one the frame's first buffer is looked at, and found too short
// for what its header says.
func (s *Stack) gather(f *Frame) {
	n := f.Packet.Len()
	i, ok := s.pool.Take(buffers.Large)
	if !ok {
		s.stats.NoBuffer++
		return
	}
	// The largest frame is longer than the largest payload by its headers: they go into the headroom.
	off := max(0, s.pool.Layout().Headroom-64)
	if m := s.pool.Memory(i); off+n <= len(m) {
		f.Packet.CopyTo(m[off : off+n])
		_ = f.Packet.Release() // received, alone
		f.Packet = s.pool.Fill(i, off, n, 0)
		s.stats.Gathered++
		return
	}
	s.pool.Untake(i)
	s.stats.NoBuffer++
}
