package udp

import (
	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Table is the sockets of one ring. It belongs to the ring's owner.
type Table struct {
	flows          flows  // addresses and ports → first of the sockets that have them
	members        shards // group, interface, socket[, source] → filter; see members.go
	connectedPorts flows  // local port → number of sockets that are connected there
	sockets        []socket
	endpoints      []Endpoint
	joined         [][]membership // by socket; members has the same as lookups need it
	free           []ID

	connected int // number of connected sockets: without one a lookup is saved
	shared    shared
}

// socket is what receiving a datagram reads of a socket.
type socket struct {
	owner   uint64
	account buffers.Account
	next    int32 // with the same addresses; newest first
	iface   uint32
	flags   uint8
}

const (
	flagUsed uint8 = 1 << iota
	flagReusePort
	flagMulticastAll
	flagStopped
)

// NewTable makes an empty table. With random seeds no other host can choose addresses that fall into one bucket.
func NewTable(seeds [2]uint64) *Table {
	return &Table{flows: newFlows(seeds), members: newShards(seeds), connectedPorts: newFlows(seeds)}
}

// Add adds a socket, as the newest of its address. The caller has checked that it may have the address: see Conflict.
func (t *Table) Add(e Endpoint) (ID, error) {
	if err := e.check(); err != nil {
		return 0, err
	}
	t.writeSockets()
	var id ID
	if n := len(t.free); n > 0 {
		id = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		id = ID(len(t.sockets))
		t.sockets = append(t.sockets, socket{})
		t.endpoints = append(t.endpoints, Endpoint{})
		t.joined = append(t.joined, nil)
	}
	t.sockets[id] = socket{flags: flagUsed}
	t.linkSocket(id, e)
	return id, nil
}

// Change changes what the table knows of a socket: it was connected, or bound to an interface. Its memberships stay.
func (t *Table) Change(id ID, e Endpoint) error {
	if err := e.check(); err != nil {
		return err
	}
	t.unlinkSocket(id)
	t.linkSocket(id, e)
	return nil
}

// Remove removes a socket and its memberships.
func (t *Table) Remove(id ID) {
	t.leaveAll(id)
	t.unlinkSocket(id)
	t.sockets[id], t.endpoints[id] = socket{}, Endpoint{}
	t.free = append(t.free, id)
}

// Endpoint is what Add or Change gave for a socket.
func (t *Table) Endpoint(id ID) Endpoint { return t.endpoints[id] }

// Owner and Account are those of Endpoint.
func (t *Table) Owner(id ID) uint64            { return t.sockets[id].owner }
func (t *Table) Account(id ID) buffers.Account { return t.sockets[id].account }

// SetStopped marks a socket that does not read at the moment, or takes the mark away; Stopped tells.
func (t *Table) SetStopped(id ID, on bool) {
	t.writeSockets()
	t.sockets[id].flags &^= flagStopped
	if on {
		t.sockets[id].flags |= flagStopped
	}
}

// Receiver is Owner, Account and Stopped in one call.
func (t *Table) Receiver(id ID) (owner uint64, a buffers.Account, stopped bool) {
	s := &t.sockets[id]
	return s.owner, s.account, s.flags&flagStopped != 0
}

// Stopped reports whether the socket does not read at the moment.
func (t *Table) Stopped(id ID) bool { return t.sockets[id].flags&flagStopped != 0 }

// Len is the number of sockets.
func (t *Table) Len() int { return len(t.sockets) - len(t.free) }

// linkSocket enters a socket under its addresses, in front of others that have the same.
func (t *Table) linkSocket(id ID, e Endpoint) {
	t.writeSockets()
	s := &t.sockets[id]
	s.owner, s.account, s.iface = e.Owner, e.Account, e.Interface
	s.flags &^= flagReusePort | flagMulticastAll
	if e.ReusePort {
		s.flags |= flagReusePort
	}
	if e.MulticastAll {
		s.flags |= flagMulticastAll
	}
	a, b := addrKey(e.Local, e.Remote), portKey(e.LocalPort, e.RemotePort)
	s.next = t.flows.find(a, b)
	t.writeFlows().set(a, b, int32(id))
	t.endpoints[id] = e
	if !e.Remote.IsZero() {
		t.connected++
		t.writeConnectedPorts().set(0, uint64(e.LocalPort), max(t.connectedPorts.find(0, uint64(e.LocalPort)), 0)+1)
	}
}

// unlinkSocket undoes linkSocket: it takes the socket out of the list of its flow, and a connected one out of the counts of connected sockets.
func (t *Table) unlinkSocket(id ID) {
	t.writeSockets()
	e := &t.endpoints[id]
	a, b := addrKey(e.Local, e.Remote), portKey(e.LocalPort, e.RemotePort)
	if head := t.flows.find(a, b); head == int32(id) {
		if next := t.sockets[id].next; next == none {
			t.writeFlows().remove(a, b)
		} else {
			t.writeFlows().set(a, b, next)
		}
	} else {
		for i := head; i != none; i = t.sockets[i].next {
			if t.sockets[i].next == int32(id) {
				t.sockets[i].next = t.sockets[id].next
				break
			}
		}
	}
	if !e.Remote.IsZero() {
		t.connected--
		if n := t.connectedPorts.find(0, uint64(e.LocalPort)); n > 1 {
			t.writeConnectedPorts().set(0, uint64(e.LocalPort), n-1)
		} else {
			t.writeConnectedPorts().remove(0, uint64(e.LocalPort))
		}
	}
}

// Unicast is the socket of a datagram to an address of this host, or the reason why there is none.
func (t *Table) Unicast(f *Flow) (ID, wire.Drop) {
	if t.connected > 0 {
		if head := t.flows.find(addrKey(f.Target, f.Source), portKey(f.TargetPort, f.SourcePort)); head != none {
			if id := t.chooseSocket(head, f); id != none {
				return ID(id), wire.Accept
			}
		}
	}
	if head := t.flows.find(addrKey(f.Target, wire.Addr{}), portKey(f.TargetPort, 0)); head != none {
		if s := &t.sockets[head]; s.next == none && s.iface == 0 { // the usual answer of chooseSocket: 2 ns less
			return ID(head), wire.Accept
		}
		if id := t.chooseSocket(head, f); id != none {
			return ID(id), wire.Accept
		}
	}
	if head := t.flows.find(0, portKey(f.TargetPort, 0)); head != none {
		if id := t.chooseSocket(head, f); id != none {
			return ID(id), wire.Accept
		}
	}
	if t.connectedPorts.find(0, uint64(f.TargetPort)) > 0 {
		return 0, wire.UDPForeignPeer
	}
	return 0, wire.UDPNoSocket
}

// chooseSocket picks one of the sockets with the same addresses: the newest that is bound to the interface, else the newest that is bound to
// none.
func (t *Table) chooseSocket(head int32, f *Flow) int32 {
	s := &t.sockets[head]
	if s.next == none && s.iface == 0 {
		return head
	}
	best := none
	for i := head; i != none; i = t.sockets[i].next {
		switch s := &t.sockets[i]; {
		case s.iface == f.Interface:
			if best == none || t.sockets[best].iface == 0 && s.iface != 0 {
				best = i
			}
		case s.iface == 0 && best == none:
			best = i
		}
	}
	if best == none || t.sockets[best].flags&flagReusePort == 0 {
		return best
	}
	return t.chooseSharer(best, f)
}

// chooseSharer picks, by the flow's hash, one of the sockets that share first's port and are bound to the same interface.
func (t *Table) chooseSharer(first int32, f *Flow) int32 {
	iface := t.sockets[first].iface
	n := uint32(0)
	for i := first; i != none; i = t.sockets[i].next {
		if t.sockets[i].iface == iface && t.sockets[i].flags&flagReusePort != 0 {
			n++
		}
	}
	if n == 1 {
		return first
	}
	left := t.spread(f, n)
	for i := first; ; i = t.sockets[i].next {
		if t.sockets[i].iface == iface && t.sockets[i].flags&flagReusePort != 0 {
			if left == 0 {
				return i
			}
			left--
		}
	}
}

// Broadcast appends the sockets that receive a broadcast datagram.
func (t *Table) Broadcast(f *Flow, dst []ID) ([]ID, wire.Drop) {
	const group = false
	return t.appendReceivers(f, dst, group)
}

// Multicast appends the sockets that receive a datagram to a group.
func (t *Table) Multicast(f *Flow, dst []ID) ([]ID, wire.Drop) {
	const group = true
	return t.appendReceivers(f, dst, group)
}

// appendReceivers is Broadcast and, with group, Multicast: every socket with the port whose address and interface match receives; of a group
// also only those whose memberships let the source pass. Without a receiver the drop is the reason.
func (t *Table) appendReceivers(f *Flow, dst []ID, group bool) ([]ID, wire.Drop) {
	before, matched := len(dst), false
	heads := [3]int32{none, t.flows.find(addrKey(f.Target, wire.Addr{}), portKey(f.TargetPort, 0)), t.flows.find(0, portKey(f.TargetPort, 0))}
	if t.connected > 0 {
		heads[0] = t.flows.find(addrKey(f.Target, f.Source), portKey(f.TargetPort, f.SourcePort))
	}
	for _, head := range heads {
		for i := head; i != none; i = t.sockets[i].next {
			s := &t.sockets[i]
			if s.iface != 0 && s.iface != f.Interface {
				continue
			}
			matched = true
			if !group || t.PassesFilter(ID(i), f) {
				dst = append(dst, ID(i))
			}
		}
	}
	switch {
	case len(dst) > before:
		return dst, wire.Accept
	case matched:
		return dst, wire.UDPGroupNotJoined
	case t.connectedPorts.find(0, uint64(f.TargetPort)) > 0:
		return dst, wire.UDPForeignPeer
	}
	return dst, wire.UDPNoSocket
}

// spread is the number, below n, of the socket that receives a flow, of n that share a port: by the flow's hash.
func (t *Table) spread(f *Flow, n uint32) uint32 {
	h := t.flows.hash(addrKey(f.Target, f.Source), portKey(f.TargetPort, f.SourcePort))
	return uint32((h >> 32 & 0xffffffff) * uint64(n) >> 32)
}
