package udp

import (
	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// StopDelivery stops delivery to a socket that does not read: its datagrams go to its backlog.
func (u *Protocol) StopDelivery(id ID) { u.table.SetStopped(id, true) }

// StartDelivery starts delivery again if the socket's backlog is empty, and reports that. While it is not, new datagrams go on queueing behind
// the older ones: the caller takes those with NextBacklogged and calls StartDelivery again.
func (u *Protocol) StartDelivery(id ID) (started bool) {
	started = u.sockets[id].backlog.Len() == 0
	u.table.SetStopped(id, !started)
	return started
}

// Backlogged is the number of datagrams in the socket's backlog.
func (u *Protocol) Backlogged(id ID) int { return u.sockets[id].backlog.Len() }

// NextBacklogged delivers the oldest datagram of the socket's backlog, in a buffer of the pool: false when there is none, or no buffer for it.
func (u *Protocol) NextBacklogged(id ID) (ok bool) {
	r := &u.sockets[id]
	h, ok := r.backlog.Peek()
	if !ok {
		return false
	}
	p, room := u.allocCopy(id, h.Len)
	if p.IsZero() {
		return false
	}
	r.backlog.Pop(room)
	u.stats.Delivered++
	u.deliveries = append(u.deliveries, Delivery{Packet: p, ID: id, Owner: u.table.Owner(id), Flow: h.Flow, Nanos: h.Nanos, Clock: h.Clock})
	return true
}

// addToBacklog copies a datagram into the socket's backlog.
func (u *Protocol) addToBacklog(id ID, f *Flow, payload []byte, nanos int64, clock ip.Clock) {
	if u.sockets[id].backlog.Push(&BacklogRecord{Flow: *f, Nanos: nanos, Clock: clock}, payload) {
		u.stats.Backlogged++
		return
	}
	u.countLost(id)
}

// countLost counts a datagram that was lost for want of room in a socket's backlog.
func (u *Protocol) countLost(id ID) {
	u.sockets[id].dropped++
	u.drops[wire.UDPBudget]++
}

// allocReceived takes a buffer for a datagram of n bytes that the caller copies into room. The packet is received and charged to a; zero when no
// buffer is free.
func (u *Protocol) allocReceived(n int, a buffers.Account) (p buffers.Packet, room []byte) {
	class := buffers.Small
	if n > u.pool.Layout().SmallSize {
		class = buffers.Large
	}
	return u.allocClass(class, n, a)
}

// allocClass is allocReceived with a buffer of a given size class.
func (u *Protocol) allocClass(class buffers.Class, n int, a buffers.Account) (p buffers.Packet, room []byte) {
	l := u.pool.Layout()
	i, ok := u.pool.Take(class)
	if !ok {
		return p, nil
	}
	m := u.pool.Memory(i)
	if l.Headroom+n > len(m) {
		u.pool.Return(i)
		return p, nil
	}
	return u.pool.Fill(i, l.Headroom, n, a), m[l.Headroom : l.Headroom+n]
}

// allocCopy is allocReceived for datagrams that are copied, from another stack or out of a backlog. Only buffers that no card
// has can serve, which may be hardly any small one: then a large one serves. The pool's dynamic rule (buffers.DriverPool.Over) counts the
// cards' buffers as left for other sockets; here the rule is applied to the free ones: of each class a socket may hold as many as are free,
// or one holder would take the rest. The classes count apart: in bytes, a few large buffers would outweigh all the small ones.
func (u *Protocol) allocCopy(id ID, n int) (p buffers.Packet, room []byte) {
	a := u.table.Account(id)
	if u.directory == nil {
		return u.allocReceived(n, a)
	}
	if n <= u.pool.Layout().SmallSize && !u.pool.OverFree(a, buffers.Small) {
		if p, room = u.allocClass(buffers.Small, n, a); !p.IsZero() {
			return p, room
		}
	}
	if u.pool.OverFree(a, buffers.Large) {
		return p, nil
	}
	return u.allocClass(buffers.Large, n, a)
}
