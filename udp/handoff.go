package udp

import (
	"math/bits"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/ip"
)

// chooseTable chooses, once for a burst, the table that its datagrams are looked up in: the directory's snapshot, or the stack's own table
// while the stack is alone.
func (u *Protocol) chooseTable() {
	u.snapshot, u.lookup = nil, u.table
	if u.directory != nil {
		if u.snapshot = u.directory.current.Load(); u.snapshot != nil {
			u.lookup = u.snapshot.table
		}
	}
}

// deliverAmongStacks delivers a proven datagram where the directory has sockets of other stacks: first to the sockets of this one, of which
// one is charged for the packet, then once for each other stack. All share the packet.
func (u *Protocol) deliverAmongStacks(f *ip.Frame, p *ip.Parsed, payload []byte, off int) {
	if p.To != ip.AddressLocal {
		u.deliverToMembers(u.ids[p.First:p.First+p.Count], f, &p.Flow, payload, off)
		return
	}
	before, at := len(u.deliveries), &u.snapshot.places[p.First]
	if at.stack == u.number {
		u.deliver(at.id, f, &p.Flow, payload, off, before)
		return
	}
	u.handOff(f, &p.Flow, payload, off, before, Delivery{ID: at.id, Owner: at.owner, To: at.stack})
}

// deliverToMembers is deliverAmongStacks for the members of a group, by their numbers in the directory; the payload begins at off.
func (u *Protocol) deliverToMembers(ids []ID, f *ip.Frame, flow *Flow, payload []byte, off int) {
	before := len(u.deliveries)
	var others uint64
	for _, id := range ids {
		if at := &u.snapshot.places[id]; at.stack == u.number {
			u.deliver(at.id, f, flow, payload, off, before)
		} else {
			others |= 1 << at.stack
		}
	}
	for ; others != 0; others &= others - 1 {
		u.handOff(f, flow, payload, off, before, Delivery{To: int32(bits.TrailingZeros64(others))})
	}
}

// handOff appends a delivery for another stack.
func (u *Protocol) handOff(f *ip.Frame, flow *Flow, payload []byte, off, before int, d Delivery) {
	if len(u.deliveries) == before {
		u.pool.Trim(f.Packet, off, len(payload), 0) // charged to no socket: the queues between rings bound what is lent
	} else if f.Packet.Retain() != nil {
		return // 65,535 members
	}
	d.Packet, d.Flow, d.Nanos, d.Clock = f.Packet, *flow, f.Nanos, f.Source
	u.deliveries = append(u.deliveries, d)
}

// TakeHandoff takes a datagram that another stack has received and proven: x is the Delivery that its Input made, without the packet, whose
// payload is copied. What it delivers has a zero Packet where no buffer was free: the datagram is kept for the socket, which reads on
// when there is one (see NextBacklogged).
func (u *Protocol) TakeHandoff(x *Delivery, payload []byte) {
	u.ids = u.ids[:0]
	switch {
	case x.Owner == 0 && u.stack.AddressKind(x.Flow.Target, x.Flow.Interface) == ip.AddressBroadcast:
		u.ids, _ = u.table.Broadcast(&x.Flow, u.ids)
	case x.Owner == 0:
		u.ids, _ = u.table.Multicast(&x.Flow, u.ids)
	case int(x.ID) < len(u.sockets) && u.sockets[x.ID].open && u.table.Owner(x.ID) == x.Owner:
		u.ids = append(u.ids, x.ID)
	}
	if len(u.ids) == 0 {
		u.stats.NoReceiver++ // closed, or left the group, while the datagram was on its way
		return
	}
	var p buffers.Packet
	for _, id := range u.ids {
		u.deliverHandoff(id, x, payload, &p)
	}
}

// deliverHandoff delivers a datagram of another stack to one socket. p is the copy in a buffer of this pool: the first socket makes it, the
// others share it.
func (u *Protocol) deliverHandoff(id ID, x *Delivery, payload []byte, p *buffers.Packet) {
	d := Delivery{ID: id, Owner: u.table.Owner(id), Flow: x.Flow, Nanos: x.Nanos, Clock: x.Clock}
	switch {
	case u.table.Stopped(id):
		u.addToBacklog(id, &x.Flow, payload, x.Nanos, x.Clock)
		return
	case p.IsZero():
		var room []byte
		if *p, room = u.allocCopy(id, len(payload)); p.IsZero() {
			u.addToBacklog(id, &x.Flow, payload, x.Nanos, x.Clock)
			u.StopDelivery(id)
			u.deliveries = append(u.deliveries, d)
			return
		}
		copy(room, payload)
		u.stats.Copied++
	case p.Retain() != nil: // 65,535 members
		u.countLost(id)
		return
	}
	d.Packet = *p
	u.stats.Delivered++
	u.deliveries = append(u.deliveries, d)
}
