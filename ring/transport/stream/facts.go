package stream

import (
	"slices"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// Report turns what happened into facts while the sink has room. A connection whose facts do not fit stays in the list.
func (t *Transport) Report(k *ring.Sink) {
	t.loop()
	t.serveRequests()
	t.takeEvents()
	t.retryBuffers()
	for i := 0; i < len(t.done); i++ { // reporting of one may add another
		x := t.done[i]
		t.done[i] = done{}
		k.Sent(x.socket, x.sent, x.errno)
	}
	t.done = t.done[:0]
	t.reporting = append(t.reporting[:0], t.ready...)
	t.ready = t.ready[:0]
	for _, n := range t.reporting {
		if n < 0 {
			if l := t.byListener[^n]; l != nil {
				l.ready = false
				if k.Room() == 0 || !t.reportChildren(k, l) {
					t.markListener(l)
				}
			}
			continue
		}
		id := tcp.ID(n)
		t.record(id).flags &^= isReady
		if k.Room() == 0 || !t.reportSocket(k, id) {
			t.markReady(id, t.record(id))
		}
	}
}

// reportSocket reports what happened to a connection, in the order that ring.Transport gives; false: the sink had no room for all. The
// application may close the socket in each report, so each step tests isOpen again.
func (t *Transport) reportSocket(k *ring.Sink, id tcp.ID) bool {
	r := t.record(id) // stays: chunks do not move
	if r.flags&isOpen == 0 {
		return true
	}
	s := r.socket.Socket()
	if r.flags&hasConnected != 0 {
		r.flags &^= hasConnected | wantsRoom // Connected is the answer to the NotifyWritable of a socket that connects
		local, _ := t.table.Endpoints(id)
		k.Connected(s, local.AddrPort())
	}
	if r.flags&(isOpen|hasAcked) == isOpen|hasAcked {
		r.flags &^= hasAcked
		k.Acknowledged(s)
	}
	if r.flags&(isOpen|wantsRoom) == isOpen|wantsRoom {
		t.reportRoom(k, id, r, s)
	}
	if r.flags&hasBacklog != 0 {
		if more, waits := t.deliverBacklog(k, id, r, s); waits {
			return !more
		}
	}
	// After a failure the data that arrived before it is reported even if the application had stopped reading.
	for r.flags&isOpen != 0 && r.first != none && r.flags&(isReading|hasFailed) != 0 {
		if k.Room() == 0 {
			return false
		}
		if !t.deliver(k, id, r, s) {
			return true
		}
	}
	// An end waits for the reader, as the data before it does. A failure does not.
	if r.flags&(isOpen|hasEnded|isReading) == isOpen|hasEnded|isReading {
		r.flags &^= hasEnded
		k.EndOfStream(s)
	}
	if r.flags&(isOpen|hasFailed) == isOpen|hasFailed {
		r.flags = r.flags&^hasFailed | wasFailureReported
		k.Failed(s, errnos[r.reason])
	}
	return true
}

// deliver reports the first arrival of a connection. One that receives into large buffers (Config.LargeStream) gets its arrivals copied into
// one of them instead, as many as it holds, if there is more than one and a large buffer is free. False: nothing was reported, because no buffer
// is free to copy into; the connection waits in unfilled.
func (t *Transport) deliver(k *ring.Sink, id tcp.ID, r *record, s *ring.Socket) bool {
	if r.first != r.last && ring.HandleOf(s).Class == buffers.Large && t.deliverLarge(k, r, s) {
		return true
	}
	n := r.first
	a := t.arrivals[n]
	if a.packet.NumBuffers() > 1 {
		return t.deliverChain(k, id, r, s)
	}
	if r.first = a.next; r.first == none {
		r.last = none
	}
	t.freeArrivalPlace(n)
	t.pool.Trim(a.packet, int(a.off), int(a.length), ring.AccountOf(s))
	k.Data(s, a.packet)
	return true
}

// deliverChain reports a piece of the first arrival of a connection, which spans buffers: as much as a small buffer holds is copied into one,
// because applications expect a packet of a stream in one buffer. False is as of deliver.
func (t *Transport) deliverChain(k *ring.Sink, id tcp.ID, r *record, s *ring.Socket) bool {
	i, ok := t.pool.TakeForCopy(buffers.Small)
	if !ok {
		t.unfilled = append(t.unfilled, int32(id))
		return false
	}
	at := r.first
	a := &t.arrivals[at]
	headroom, n := t.pool.Layout().Headroom, min(int(a.length), t.pool.Layout().SmallSize)
	copyFrom(t.pool.Memory(i)[headroom:headroom+n], a.packet, int(a.off))
	if a.off, a.length = a.off+uint32(n), a.length-uint32(n); a.length == 0 {
		if r.first = a.next; r.first == none {
			r.last = none
		}
		t.dropArrival(at)
	}
	k.Data(s, t.pool.Fill(i, headroom, n, ring.AccountOf(s)))
	return true
}

// deliverLarge copies arrivals into a large buffer and reports that; false when none is free. At least one arrival is copied: a pool that serves
// such sockets has large buffers that hold any frame of its links.
func (t *Transport) deliverLarge(k *ring.Sink, r *record, s *ring.Socket) bool {
	i, ok := t.pool.Take(buffers.Large)
	if !ok {
		return false
	}
	headroom := t.pool.Layout().Headroom
	room := t.pool.Memory(i)[headroom:]
	n := 0
	for r.first != none {
		a := &t.arrivals[r.first]
		if n+int(a.length) > len(room) {
			break
		}
		copyFrom(room[n:n+int(a.length)], a.packet, int(a.off))
		n += int(a.length)
		at := r.first
		if r.first = a.next; r.first == none {
			r.last = none
		}
		t.dropArrival(at)
	}
	t.stats.Gathered++
	k.Data(s, t.pool.Fill(i, headroom, n, ring.AccountOf(s)))
	return true
}

// reportRoom reports Writable once at least half of the send queue is free and the pool has a buffer to send from. Without a buffer the
// connection waits in roomless.
func (t *Transport) reportRoom(k *ring.Sink, id tcp.ID, r *record, s *ring.Socket) {
	room := t.table.Room(id)
	if room == 0 || 2*room < t.table.Settings(id).SendBuffer {
		return // the next EventAcked marks it ready again
	}
	if t.pool.Queueable(buffers.Small) <= 0 {
		if r.flags&isRoomless == 0 {
			r.flags |= isRoomless
			t.roomless = append(t.roomless, int32(id))
		}
		return
	}
	r.flags &^= wantsRoom
	k.Writable(s)
}

// hasBuffers reports whether a connection of roomless or unfilled can have a buffer.
func (t *Transport) hasBuffers() bool {
	return len(t.roomless) > 0 && t.pool.Queueable(buffers.Small) > 0 || len(t.unfilled) > 0 && t.pool.Copyable(buffers.Small) > 0
}

// retryBuffers marks as many connections of roomless and of unfilled ready again as there are buffers for.
func (t *Transport) retryBuffers() {
	if len(t.roomless) > 0 {
		t.roomless = t.retryFirst(t.roomless, t.pool.Queueable(buffers.Small), isRoomless)
	}
	if len(t.unfilled) > 0 {
		t.unfilled = t.retryFirst(t.unfilled, t.pool.Copyable(buffers.Small), 0)
	}
}

// retryFirst marks the first n connections of a list ready again, clears a flag of theirs, and returns the rest. n may be negative, or more than
// there are.
func (t *Transport) retryFirst(list []int32, n int, flag recordFlags) (rest []int32) {
	n = max(min(n, len(list)), 0)
	for _, id := range list[:n] {
		r := t.record(tcp.ID(id))
		r.flags &^= flag
		t.markReady(tcp.ID(id), r)
	}
	return slices.Delete(list, 0, n)
}

// childLimit bounds the connections of a listener that one turn accepts.
const childLimit = 256

// reportChildren reports connections that wait at a listener; false: there are more.
func (t *Transport) reportChildren(k *ring.Sink, l *listener) bool {
	for n := 0; l.reading && l.first != none; n++ {
		if k.Room() == 0 || n == childLimit {
			return false
		}
		id := tcp.ID(l.first)
		r := t.record(id)
		if l.first = r.next; l.first == none {
			l.last = none
		}
		r.next = none
		_, remote := t.table.Endpoints(id)
		k.Accepted(l.socket.Socket(), connOf(id), remote.AddrPort())
	}
	return true
}

// addChild puts a new child behind the others at its listener.
func (t *Transport) addChild(id tcp.ID, at tcp.ListenerID) {
	r := t.newRecord(id)
	l := t.byListener[at-1]
	if l == nil { // it is being closed
		t.table.Abort(t.now(), id)
		return
	}
	t.recordFlow(id)
	r.device, r.hold = l.device, l.hold
	t.holds.at(l.hold).users++
	if l.last == none {
		l.first = int32(id)
	} else {
		t.record(tcp.ID(l.last)).next = int32(id)
	}
	l.last = int32(id)
	t.markListener(l)
}

// markListener notes that a listener has children to report.
func (t *Transport) markListener(l *listener) {
	if !l.ready {
		l.ready = true
		t.ready = append(t.ready, ^int32(l.id-1))
	}
}
