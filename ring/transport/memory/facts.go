package memory

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/memory/protocol"
)

// frameLimit bounds the frames of one turn.
const frameLimit = 256

// advance takes what has arrived and does what is due. Nothing is told in it.
func (h *Host) advance() {
	h.pull()
	h.table.Expire(h.now)
	h.table.Flush(h.now)
	if freed := h.pool.Freed(); len(h.roomless) > 0 && freed != h.freed {
		h.freed = freed
		for _, i := range h.roomless {
			h.markReady(i)
		}
		h.roomless = h.roomless[:0]
	}
}

// pull takes what has arrived. A send does it too: it is answered by what is known now.
func (h *Host) pull() {
	h.now = h.clock()
	if h.pool == nil {
		return // no ring yet
	}
	h.link.Advance(h.now)
	h.complete()
	if h.table.Blocked() {
		h.table.Resume(h.now)
	}
	for range frameLimit {
		frame, ok := h.link.Receive(h.now)
		if !ok {
			return
		}
		if s, payload, ok := protocol.Parse(frame); ok {
			to := h
			if o := h.other; o != nil && !h.table.Knows(&s) && o.table.Knows(&s) {
				to, o.now = o, h.now // it was sent before the connection moved
			}
			to.input = payload
			to.table.Input(h.now, &s)
			to.input = nil
		}
		h.link.Release()
	}
}

// deadline is when the host has something to do by itself.
func (h *Host) deadline() clock.Time { return min(h.table.Deadline(), h.link.Deadline()) }

// pending reports whether there is something to tell, or to do at once.
func (h *Host) pending() bool {
	return len(h.ready) > 0 || len(h.done) > 0 || h.link.HasRoom() && (h.leaving || h.table.Blocked())
}

// report tells facts while the sink has room. A record whose facts do not fit stays in the list.
func (h *Host) report(k *ring.Sink) {
	for i := 0; i < len(h.done); i++ { // reporting of one may add another
		x := h.done[i]
		h.done[i] = done{}
		k.Sent(x.socket, x.sent, x.errno)
	}
	h.done = h.done[:0]
	h.reporting = append(h.reporting[:0], h.ready...)
	h.ready = h.ready[:0]
	for _, i := range h.reporting {
		h.records[i].flags &^= isReady
		if k.Room() == 0 || !h.reportSocket(k, i) {
			h.markReady(i)
		}
	}
}

// isReportable reports whether facts of the record may be told: a fact before may have closed its socket.
func (h *Host) isReportable(i int32) bool { return h.records[i].flags&isOpen != 0 }

// reportSocket reports what happened to a record; false: there was not room for all.
func (h *Host) reportSocket(k *ring.Sink, i int32) bool {
	if !h.isReportable(i) {
		return true
	}
	s := h.records[i].socket.Socket()
	if h.records[i].listener > 0 {
		return h.reportChildren(k, i, s)
	}
	if r := &h.records[i]; r.flags&hasConnected != 0 {
		r.flags &^= hasConnected | wantsRoom
		k.Connected(s, h.table.Local(r.id).AddrPort())
		if !h.isReportable(i) {
			return true
		}
	}
	if r := &h.records[i]; r.flags&hasAcked != 0 {
		r.flags &^= hasAcked
		k.Acknowledged(s)
	}
	if r := &h.records[i]; r.flags&wantsRoom != 0 {
		if h.hasRoom(r) {
			r.flags &^= wantsRoom
			k.Writable(s)
		} else if h.room(r) > 0 {
			h.roomless = append(h.roomless, i)
		}
	}
	// A failure ends whatever had stopped the reading: what came before it is told first.
	for h.isReportable(i) && h.records[i].recvHead != none && h.records[i].flags&(isReading|hasFailed) != 0 {
		if k.Room() == 0 {
			return false
		}
		r := &h.records[i]
		h.fill(r.recvHead, ring.AccountOf(s))
		a := h.takeArrival(r)
		k.Data(s, a.packet)
	}
	if !h.isReportable(i) {
		return true
	}
	r := &h.records[i]
	if r.flags&hasEnded != 0 && r.flags&isReading != 0 {
		r.flags &^= hasEnded
		k.EndOfStream(s)
		if !h.isReportable(i) {
			return true
		}
	}
	if r := &h.records[i]; r.flags&hasFailed != 0 {
		r.flags = r.flags&^hasFailed | toldFailed
		k.Failed(s, r.failure)
	}
	return true
}

// hasRoom reports whether Writable may be told: half of the send queue is free, and there are buffers.
func (h *Host) hasRoom(r *record) bool {
	if r.id == protocol.NoID || !h.table.Sends(r.id) {
		return false
	}
	return h.room(r) >= int(r.queued) && h.pool.Free(0) > 0
}

// childLimit bounds the connections of a listener that one turn accepts.
const childLimit = 256

func (h *Host) reportChildren(k *ring.Sink, i int32, l *ring.Socket) bool {
	for n := 0; h.isReportable(i) && h.records[i].waitHead != none && h.records[i].flags&isReading != 0; n++ {
		if k.Room() == 0 || n == childLimit {
			return false
		}
		r := &h.records[i]
		child := r.waitHead
		if r.waitHead = h.records[child].next; r.waitHead == none {
			r.waitTail = none
		}
		h.records[child].next = none
		k.Accepted(l, ring.Conn(child+1), h.table.Remote(h.records[child].id).AddrPort())
	}
	return true
}
