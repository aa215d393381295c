package stack

import (
	"math/bits"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/udp"
)

// lookInto chooses, once for a burst, the table that its datagrams are looked up in.
func (s *Stack) lookInto() {
	s.book, s.all = nil, s.udp
	if s.dir != nil {
		if s.book = s.dir.current.Load(); s.book != nil {
			s.all = s.book.table
		}
	}
}

// among gives a proven datagram to its sockets where some are other stacks': first to those of this one, of which one pays for the packet,
// then once for each other stack. All share the packet.
func (s *Stack) among(f *Frame, l *look, payload []byte, dst []Delivery) []Delivery {
	n, off := len(dst), int(l.segment)+wire.UDPLen
	if l.kind == isUnicast {
		at := &s.book.places[l.first]
		if at.stack == s.number {
			return s.deliver(at.id, f, l, payload, off, dst, n)
		}
		return s.hand(f, l, payload, off, dst, n, Delivery{ID: at.id, Owner: at.owner, To: at.stack})
	}
	return s.amongMembers(f, l, payload, off, dst)
}

// amongMembers is among for the members of a group, whose payload begins at off.
func (s *Stack) amongMembers(f *Frame, l *look, payload []byte, off int, dst []Delivery) []Delivery {
	n := len(dst)
	var others uint64
	for _, id := range s.ids[l.first : l.first+l.count] {
		if at := &s.book.places[id]; at.stack == s.number {
			dst = s.deliver(at.id, f, l, payload, off, dst, n)
		} else {
			others |= 1 << at.stack
		}
	}
	for ; others != 0; others &= others - 1 {
		dst = s.hand(f, l, payload, off, dst, n, Delivery{To: int32(bits.TrailingZeros64(others))})
	}
	return dst
}

// hand appends a delivery for another stack.
func (s *Stack) hand(f *Frame, l *look, payload []byte, off int, dst []Delivery, n int, x Delivery) []Delivery {
	if len(dst) == n {
		s.pool.Narrow(f.Packet, off, len(payload), 0) // nobody here pays: the lanes bound what is lent
	} else if f.Packet.Retain() != nil {
		return dst // 65,535 members
	}
	x.Packet, x.Flow, x.Nanos, x.Clock = f.Packet, l.flow, f.Nanos, f.Clock
	return append(dst, x)
}

// Accept takes a datagram that another stack has received and proven: x is the Delivery that its Input made, without the packet, whose
// payload is copied. What it appends to dst has a zero Packet where no buffer was free: the datagram is kept for the socket, which reads on
// when there is one (see Next).
func (s *Stack) Accept(x *Delivery, payload []byte, dst []Delivery) []Delivery {
	s.ids = s.ids[:0]
	switch {
	case x.Owner == 0 && s.kindOf(x.Flow.Target, x.Flow.Interface) == addrBroadcast:
		s.ids, _ = s.udp.Broadcast(&x.Flow, s.ids)
	case x.Owner == 0:
		s.ids, _ = s.udp.Multicast(&x.Flow, s.ids)
	case int(x.ID) < len(s.sockets) && s.sockets[x.ID].open && s.udp.Owner(x.ID) == x.Owner:
		s.ids = append(s.ids, x.ID)
	}
	if len(s.ids) == 0 {
		s.stats.Strayed++ // closed, or left the group, while the datagram was under way
		return dst
	}
	var p buffers.Packet
	for _, id := range s.ids {
		dst = s.accept(id, x, payload, &p, dst)
	}
	return dst
}

// spare is fresh for datagrams that are copied, from another stack or out of a backlog. They find only what does not lie ready for a card,
// which may be hardly a small buffer at all: then a large one serves. The pool's dynamic rule (buffers.Pool.Over) counts what lies ready
// as left for the others; here it is applied to what is free: of each class a socket may hold as many as that, or one holder would take
// the rest. The classes count apart: in bytes, a few large buffers would outweigh all the small ones.
func (s *Stack) spare(id udp.ID, n int) (p buffers.Packet, room []byte) {
	a := s.udp.Account(id)
	if s.dir == nil {
		return s.fresh(n, a)
	}
	if n <= s.pool.Layout().SmallSize && !s.pool.OverFree(a, buffers.Small) {
		if p, room = s.freshOf(buffers.Small, n, a); !p.IsZero() {
			return p, room
		}
	}
	if s.pool.OverFree(a, buffers.Large) {
		return p, nil
	}
	return s.freshOf(buffers.Large, n, a)
}

// accept gives the datagram to one socket; p is the copy, once there is one.
func (s *Stack) accept(id udp.ID, x *Delivery, payload []byte, p *buffers.Packet, dst []Delivery) []Delivery {
	d := Delivery{ID: id, Owner: s.udp.Owner(id), Flow: x.Flow, Nanos: x.Nanos, Clock: x.Clock}
	switch {
	case s.udp.Stopped(id):
		s.keep(id, &x.Flow, payload, x.Nanos, x.Clock)
		return dst
	case p.IsZero():
		var room []byte
		if *p, room = s.spare(id, len(payload)); p.IsZero() {
			s.keep(id, &x.Flow, payload, x.Nanos, x.Clock)
			s.Stop(id, true)
			return append(dst, d)
		}
		copy(room, payload)
		s.stats.Copied++
	case p.Retain() != nil: // 65,535 members
		s.count(id)
		return dst
	}
	d.Packet = *p
	s.stats.Delivered++
	return append(dst, d)
}
