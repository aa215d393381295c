package udp

import (
	"errors"
	"fmt"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// ID names a socket in its table, small and dense. It is used again after Remove.
type ID int32

// Endpoint is what a table knows of a socket.
type Endpoint struct {
	Owner                 uint64          // the caller's own; comes back with datagrams
	Account               buffers.Account // pays for the datagrams
	Local, Remote         wire.Addr       // Local zero: the wildcard; Remote zero: not connected
	LocalPort, RemotePort uint16
	Interface             uint32 // tied to it (SO_BINDTODEVICE); 0: to none
	ReusePort             bool
	MulticastAll          bool // takes datagrams of groups that it did not join, as Linux does by default
}

// Table is the sockets of one ring. It belongs to the ring's owner.
type Table struct {
	flows   flows  // addresses and ports → first of the sockets that have them
	members shards // group, interface, socket[, source] → filter; see members.go
	foreign flows  // local port → number of sockets that are connected there
	sockets []socket
	facts   []Endpoint
	joined  [][]membership
	free    []ID

	connected int // sockets that are; without one a lookup is spared
	shared    shared
}

// socket is what the path of packets touches.
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

// ErrEndpoint: what cannot be a socket's address.
var ErrEndpoint = errors.New("udp: not an address of a socket")

// NewTable makes an empty table; the seeds keep strangers from aiming at one of its buckets.
func NewTable(seeds [2]uint64) *Table {
	return &Table{flows: newFlows(seeds), members: newShards(seeds), foreign: newFlows(seeds)}
}

// Add puts a socket in, as the newest of its address. Whether it may have that address is the caller's question: see Conflict.
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
		t.facts = append(t.facts, Endpoint{})
		t.joined = append(t.joined, nil)
	}
	t.sockets[id] = socket{flags: flagUsed}
	t.link(id, e)
	return id, nil
}

// Change gives a socket other facts: it was connected, or tied to an interface. Its memberships stay.
func (t *Table) Change(id ID, e Endpoint) error {
	if err := e.check(); err != nil {
		return err
	}
	t.unlink(id)
	t.link(id, e)
	return nil
}

// Remove takes a socket out, with its memberships.
func (t *Table) Remove(id ID) {
	t.leaveAll(id)
	t.unlink(id)
	t.sockets[id], t.facts[id] = socket{}, Endpoint{}
	t.free = append(t.free, id)
}

// Endpoint is what the table was told of a socket.
func (t *Table) Endpoint(id ID) Endpoint { return t.facts[id] }

// Owner and Account are those of Endpoint.
func (t *Table) Owner(id ID) uint64            { return t.sockets[id].owner }
func (t *Table) Account(id ID) buffers.Account { return t.sockets[id].account }

// Stop marks a socket that does not read at the moment, or takes the mark away; Stopped tells.
func (t *Table) Stop(id ID, on bool) {
	t.writeSockets()
	t.sockets[id].flags &^= flagStopped
	if on {
		t.sockets[id].flags |= flagStopped
	}
}

// Receiver is Owner, Account and Stopped in one look.
func (t *Table) Receiver(id ID) (owner uint64, a buffers.Account, stopped bool) {
	s := &t.sockets[id]
	return s.owner, s.account, s.flags&flagStopped != 0
}

// Stopped reports whether the socket does not read at the moment.
func (t *Table) Stopped(id ID) bool { return t.sockets[id].flags&flagStopped != 0 }

// Len is the number of sockets.
func (t *Table) Len() int { return len(t.sockets) - len(t.free) }

func (e *Endpoint) check() error {
	switch {
	case e.LocalPort == 0:
		return fmt.Errorf("udp: LocalPort 0: %w", ErrEndpoint)
	case e.Remote.IsZero() != (e.RemotePort == 0):
		return fmt.Errorf("udp: Remote %v with RemotePort %d: %w", e.Remote, e.RemotePort, ErrEndpoint)
	case e.Local.IsZero() && !e.Remote.IsZero():
		return fmt.Errorf("udp: Local 0.0.0.0 with Remote %v: a connected socket has an address: %w", e.Remote, ErrEndpoint)
	}
	return nil
}

func (t *Table) link(id ID, e Endpoint) {
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
	a, b := pair(e.Local, e.Remote), ports(e.LocalPort, e.RemotePort)
	s.next = t.flows.find(a, b)
	t.writeFlows().set(a, b, int32(id))
	t.facts[id] = e
	if !e.Remote.IsZero() {
		t.connected++
		t.writeForeign().set(0, uint64(e.LocalPort), max(t.foreign.find(0, uint64(e.LocalPort)), 0)+1)
	}
}

func (t *Table) unlink(id ID) {
	t.writeSockets()
	e := &t.facts[id]
	a, b := pair(e.Local, e.Remote), ports(e.LocalPort, e.RemotePort)
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
		if n := t.foreign.find(0, uint64(e.LocalPort)); n > 1 {
			t.writeForeign().set(0, uint64(e.LocalPort), n-1)
		} else {
			t.writeForeign().remove(0, uint64(e.LocalPort))
		}
	}
}

// Unicast is the socket that a datagram to an address of ours belongs to; otherwise the reason why there is none.
func (t *Table) Unicast(f *Flow) (ID, wire.Drop) {
	if t.connected > 0 {
		if head := t.flows.find(pair(f.Target, f.Source), ports(f.TargetPort, f.SourcePort)); head != none {
			if id := t.choose(head, f); id != none {
				return ID(id), wire.Accept
			}
		}
	}
	if head := t.flows.find(pair(f.Target, wire.Addr{}), ports(f.TargetPort, 0)); head != none {
		if s := &t.sockets[head]; s.next == none && s.iface == 0 { // choose's usual answer: 2 ns less
			return ID(head), wire.Accept
		}
		if id := t.choose(head, f); id != none {
			return ID(id), wire.Accept
		}
	}
	if head := t.flows.find(0, ports(f.TargetPort, 0)); head != none {
		if id := t.choose(head, f); id != none {
			return ID(id), wire.Accept
		}
	}
	if t.foreign.find(0, uint64(f.TargetPort)) > 0 {
		return 0, wire.UDPForeignPeer
	}
	return 0, wire.UDPNoSocket
}

// choose picks one of the sockets with the same addresses.
func (t *Table) choose(head int32, f *Flow) int32 {
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
	return t.share(best, f)
}

// share picks one of those that are as good as first and share its port.
func (t *Table) share(first int32, f *Flow) int32 {
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

// Broadcast appends the sockets that a broadcast datagram belongs to.
func (t *Table) Broadcast(f *Flow, dst []ID) ([]ID, wire.Drop) { return t.every(f, dst, false) }

// Multicast appends the sockets that a datagram to a group belongs to.
func (t *Table) Multicast(f *Flow, dst []ID) ([]ID, wire.Drop) { return t.every(f, dst, true) }

func (t *Table) every(f *Flow, dst []ID, group bool) ([]ID, wire.Drop) {
	before, met := len(dst), false
	heads := [3]int32{none, t.flows.find(pair(f.Target, wire.Addr{}), ports(f.TargetPort, 0)), t.flows.find(0, ports(f.TargetPort, 0))}
	if t.connected > 0 {
		heads[0] = t.flows.find(pair(f.Target, f.Source), ports(f.TargetPort, f.SourcePort))
	}
	for _, head := range heads {
		for i := head; i != none; i = t.sockets[i].next {
			s := &t.sockets[i]
			if s.iface != 0 && s.iface != f.Interface {
				continue
			}
			met = true
			if !group || t.Passes(ID(i), f) {
				dst = append(dst, ID(i))
			}
		}
	}
	switch {
	case len(dst) > before:
		return dst, wire.Accept
	case met:
		return dst, wire.UDPGroupNotJoined
	case t.foreign.find(0, uint64(f.TargetPort)) > 0:
		return dst, wire.UDPForeignPeer
	}
	return dst, wire.UDPNoSocket
}

// Binding is what decides whether two sockets may have the same port.
type Binding struct {
	Local                wire.Addr // zero: the wildcard
	Port                 uint16
	Interface            uint32
	ReuseAddr, ReusePort bool
}

// Conflict reports whether a second socket may not have the port because of a first: udp_lib_lport_inuse and inet_rcv_saddr_equal of
// the kernel, with all sockets of one user. Addresses meet when they are equal or one is the wildcard; sockets tied to
// different interfaces do not meet; both with SO_REUSEADDR or both with SO_REUSEPORT may share.
func Conflict(a, b Binding) bool {
	switch {
	case a.Port != b.Port,
		a.Interface != 0 && b.Interface != 0 && a.Interface != b.Interface,
		a.Local != b.Local && !a.Local.IsZero() && !b.Local.IsZero(),
		a.ReuseAddr && b.ReuseAddr, a.ReusePort && b.ReusePort:
		return false
	}
	return true
}
