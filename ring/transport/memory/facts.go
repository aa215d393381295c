package memory

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/memory/protocol"
)

// frameLimit is how many frames one receiveFrames takes at the most.
const frameLimit = 256

// advance takes what has arrived, does what is due, and makes the records ready again that waited for free buffers. It reports nothing to a
// sink.
func (h *Host) advance() {
	h.receiveFrames()
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

// receiveFrames takes back frames that were sent, and gives frames that have arrived to the protocol. Reap calls it, and so does Send, so that
// its answer is of the present state.
func (h *Host) receiveFrames() {
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

// deadline is the earliest deadline of the protocol and of the link; clock.Never: none.
func (h *Host) deadline() clock.Time { return min(h.table.Deadline(), h.link.Deadline()) }

// hasWork reports whether there are facts to report, or frames to send that the link has room for.
func (h *Host) hasWork() bool {
	return len(h.ready) > 0 || len(h.completions) > 0 || h.link.HasRoom() && (h.leaving || h.table.Blocked())
}

// report gives facts to the sink while it has room. A record whose facts do not fit stays in the list of ready ones.
func (h *Host) report(k *ring.Sink) {
	for i := 0; i < len(h.completions); i++ { // reporting of one may add another
		x := h.completions[i]
		h.completions[i] = completion{}
		k.Sent(x.socket, x.sent, x.errno)
	}
	h.completions = h.completions[:0]
	h.reporting = append(h.reporting[:0], h.ready...)
	h.ready = h.ready[:0]
	for _, i := range h.reporting {
		h.records[i].flags &^= isReady
		if k.Room() == 0 || !h.reportSocket(k, i) {
			h.markReady(i)
		}
	}
}

// isReportable reports whether facts of the record may go to the sink as those of the socket. It is asked again after each fact, because the
// application may have closed the socket in answer to it, and another one may have the record.
func (h *Host) isReportable(i int32, of ring.SocketRef) bool {
	r := &h.records[i]
	return r.flags&isOpen != 0 && r.socket == of
}

// reportSocket gives the facts of record i to the sink, in the order in which they happened; false: there was not room for all.
func (h *Host) reportSocket(k *ring.Sink, i int32) bool {
	of := h.records[i].socket
	if !h.isReportable(i, of) {
		return true
	}
	s := of.Socket()
	if h.records[i].listener > 0 {
		return h.reportChildren(k, i, of)
	}
	if r := &h.records[i]; r.flags&hasConnected != 0 {
		r.flags &^= hasConnected | wantsRoom
		k.Connected(s, h.table.Local(r.id).AddrPort())
		if !h.isReportable(i, of) {
			return true
		}
	}
	if r := &h.records[i]; r.flags&hasAcked != 0 {
		r.flags &^= hasAcked
		k.Acknowledged(s)
	}
	if r := &h.records[i]; r.flags&wantsRoom != 0 {
		if h.isWritable(r) {
			r.flags &^= wantsRoom
			k.Writable(s)
		} else if h.sendRoom(r) > 0 {
			h.roomless = append(h.roomless, i)
		}
	}
	// After a failure data is reported even if reading was stopped: it came before.
	for h.isReportable(i, of) && h.records[i].recvHead != none && h.records[i].flags&(isReading|hasFailed) != 0 {
		if k.Room() == 0 {
			return false
		}
		r := &h.records[i]
		h.fillArrival(r.recvHead, ring.AccountOf(s))
		a := h.takeArrival(r)
		k.Data(s, a.packet)
	}
	if !h.isReportable(i, of) {
		return true
	}
	r := &h.records[i]
	if r.flags&hasEnded != 0 && r.flags&isReading != 0 {
		r.flags &^= hasEnded
		k.EndOfStream(s)
		if !h.isReportable(i, of) {
			return true
		}
	}
	if r := &h.records[i]; r.flags&hasFailed != 0 {
		r.flags = r.flags&^hasFailed | reportedFailed
		k.Failed(s, r.failure)
	}
	return true
}

// isWritable reports whether Writable may be reported: half of the send queue is free, and there are buffers.
func (h *Host) isWritable(r *record) bool {
	if r.id == protocol.NoID || !h.table.Sends(r.id) {
		return false
	}
	return h.sendRoom(r) >= int(r.queued) && h.pool.Free(0) > 0
}

// childLimit bounds the connections of a listener that one turn accepts.
const childLimit = 256

// reportChildren gives the connections that wait at listener i to the sink; false: some are left, for want of room or over childLimit.
func (h *Host) reportChildren(k *ring.Sink, i int32, of ring.SocketRef) bool {
	l := of.Socket()
	for n := 0; h.isReportable(i, of) && h.records[i].waitHead != none && h.records[i].flags&isReading != 0; n++ {
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
