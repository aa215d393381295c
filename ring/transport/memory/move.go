package memory

import (
	"fmt"
	"syscall"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/memory/protocol"
)

// A host's connections can go on at another one, its spare, whose link the same ring polls: as when a card fails and another takes over.
//
//	1. MoveTo: what a connection has at the old link completes there; new data waits.
//	2. When the old link holds no frame of it, the connection is taken over: the protocol's record, both queues, its socket (Sink.Move).
//	3. When all are there, the addresses lead to the new link. Frames that the old one still has are given to the new host, and the other way
//	   round: listeners stay where they are.

// MoveTo begins to move the host's connections to its spare. The ring's next Polls do it. Owner only.
func (h *Host) MoveTo(spare *Host) error {
	if h.driver == nil || spare == nil || spare != h.config.Spare {
		return fmt.Errorf("memory: move: not the spare of a host that has a ring: %w", syscall.EINVAL)
	}
	h.leaving = true
	h.other, spare.other = spare, h
	return nil
}

// move takes over what the old link has let go of.
func (h *Host) move(k *ring.Sink) {
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

// onLink reports whether the link refers to something of the record.
func (h *Host) onLink(r *record) bool {
	for p := r.sendHead; p != none; p = h.pieces[p].next {
		if h.pieces[p].frames > 0 {
			return true
		}
	}
	return false
}

func (h *Host) moveRecord(k *ring.Sink, i int32) {
	to := h.other
	to.now = h.now
	id, err := to.table.Import(h.now, h.table.Export(h.records[i].id))
	if err != nil {
		panic(fmt.Sprintf("memory: move: %v", err)) // two hosts with the same connection
	}
	j := to.open()
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
		to.append(j, to.newArrival(a))
	}
	r = &to.records[j]
	r.queued = old.queued
	to.identify(j, id)
	r.socket = old.socket
	old.sendHead, old.sendTail, old.id = none, none, protocol.NoID
	h.forget(i)
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
		if !to.Has(a) {
			to.addrs = append(to.addrs, a)
		}
	}
}
