package udp

import (
	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/ip"
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

// deliver delivers a datagram to one socket; before is how many deliveries there were before the datagram's. The first socket that gets the
// packet is charged for it, the others have a reference.
func (u *Protocol) deliver(id ID, f *ip.Frame, flow *Flow, payload []byte, off, before int) {
	owner, account, stopped := u.table.Receiver(id)
	if stopped {
		u.addToBacklog(id, flow, payload, f.Nanos, f.Source)
		return
	}
	if len(u.deliveries) == before {
		u.pool.Trim(f.Packet, off, len(payload), account)
	} else if f.Packet.Retain() != nil { // 65,535 members
		u.countLost(id)
		return
	}
	u.stats.Delivered++
	u.deliveries = append(u.deliveries, Delivery{})
	d := &u.deliveries[len(u.deliveries)-1] // in place: one put together elsewhere is copied
	d.Packet, d.ID, d.Owner, d.Flow, d.Nanos, d.Clock, d.To = f.Packet, id, owner, *flow, f.Nanos, f.Source, 0
}
