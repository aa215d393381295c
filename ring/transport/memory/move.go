package memory

import (
	"fmt"
	"syscall"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/memory/protocol"
)

// A host's connections can go on at another one, its spare, whose link the same ring polls: as when a card fails and another takes over.
//
//	1. MoveTo: frames that a connection has at the old link complete there; new data waits.
//	2. When the old link holds no frame of it, the connection moves: the protocol's record, both queues, its socket (Sink.Move).
//	3. When all have moved, the addresses lead to the new link. Frames that still come to the old one are given to the new host, and the other
//	   way round, because listeners stay at the old host.

// MoveTo begins to move the host's connections to its spare. The ring's next Polls do it. Owner only.
func (h *Host) MoveTo(spare *Host) error {
	if h.driver == nil || spare == nil || spare != h.config.Spare {
		return fmt.Errorf("memory: move: not the spare of a host that has a ring: %w", syscall.EINVAL)
	}
	h.leaving = true
	h.other, spare.other = spare, h
	return nil
}

// moveConnections moves each connection that has no frame at the old link, and reroutes the addresses when none is left. Reap calls it after
// MoveTo, until all have moved.
func (h *Host) moveConnections(k *ring.Sink) {
	left := false
	for i := range h.records {
		r := &h.records[i]
		switch {
		case r.id == protocol.NoID || r.flags&inUse == 0:
		case !h.table.Taken(r.id) || h.onLink(r):
			left = true
		default:
			h.moveRecord(k, int32(i))
		}
	}
	if !left {
		h.leaving = false
		h.link.network.reroute(h.link, h.other.link)
	}
}

// onLink reports whether the link still refers to memory of the record's send queue.
func (h *Host) onLink(r *record) bool {
	for p := r.sendHead; p != none; p = h.pieces[p].next {
		if h.pieces[p].frames > 0 {
			return true
		}
	}
	return false
}

// moveRecord moves record i with its connection, its queues and its socket to the other host, and reports the socket's new Conn to the sink.
func (h *Host) moveRecord(k *ring.Sink, i int32) {
	to := h.other
	to.now = h.now
	id, err := to.table.Import(h.now, h.table.Export(h.records[i].id))
	if err != nil {
		panic(fmt.Sprintf("memory: move: %v", err)) // two hosts with the same connection
	}
	j := to.newRecord()
	old, r, s := &h.records[i], &to.records[j], h.records[i].socket.Socket()
	h.byID[old.id] = none
	r.local, r.remote, r.failure, r.limit, r.userTimeout = old.local, old.remote, old.failure, old.limit, old.userTimeout
	r.flags = old.flags &^ (isBound | isReady)
	if old.flags&isBound != 0 {
		h.unbind(old)
		if _, err := to.table.Bind(r.local); err == nil {
			r.flags |= isBound
		}
	}
	for p := old.sendHead; p != none; {
		moved := h.pieces[p]
		next := moved.next
		h.pieces[p] = piece{next: h.freePieces}
		h.freePieces = p
		to.enqueue(j, moved)
		p = next
	}
	for old.recvHead != none {
		a := h.takeArrival(old)
		a.next = none
		to.appendArrival(j, to.newArrival(a))
	}
	r = &to.records[j]
	r.queued = old.queued
	to.setConnection(j, id)
	r.socket = old.socket
	old.sendHead, old.sendTail, old.id = none, none, protocol.NoID
	h.freeRecord(i)
	if s != nil {
		k.Move(s, to, ring.Conn(j+1))
	}
	to.markReady(j)
}

// reroute gives the addresses of one link to another.
func (n *Network) reroute(from, to *Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range from.addrs {
		n.routes[a] = to
		if !to.HasAddress(a) {
			to.addrs = append(to.addrs, a)
		}
	}
}
