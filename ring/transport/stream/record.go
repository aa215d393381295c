package stream

import (
	"syscall"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// ConnBase and the number of a connection are the ring.Conn of its socket. Those of the transport below are smaller.
const ConnBase = ring.Conn(1 << 30)

func connOf(id tcp.ID) ring.Conn { return ConnBase + ring.Conn(id) }

// idOf is the connection of a ring.Conn; tcp.NoID for one of the transport below.
func idOf(c ring.Conn) tcp.ID {
	if c < ConnBase {
		return tcp.NoID
	}
	return tcp.ID(c - ConnBase)
}

func idOfSocket(s *ring.Socket) tcp.ID { return idOf(ring.HandleOf(s).Conn) }

// record is what the transport knows of a connection beside the table: 32 bytes without a pointer. It lives until EventGone.
type record struct {
	socket      ring.SocketRef // 0: none yet, or it is closed
	hold        int32          // what it rests on: of a child its listener's; 0: nothing
	first, last int32          // arrivals that were not delivered
	next        int32          // of a child that was not reported: the next one at its listener
	device      int32          // the interface that the socket is tied to; 0: none
	flags       recordFlags
	reason      tcp.Reason // why it failed
}

type recordFlags uint16

const (
	isLive       recordFlags = 1 << iota // the table has the connection
	isOpen                               // the socket is on the ring: facts may be reported
	isReading                            // SetReceiving was called last with true
	isReady                              // in Transport.ready
	isClosed                             // Close or Refuse was called
	isShut                               // CloseWrite was called
	wantsRoom                            // NotifyWritable was called
	hasConnected                         // facts that were not reported yet
	hasEnded
	hasFailed
	hasAcked
	wasFailureReported // Failed was reported: nothing comes after it
	hasBacklog         // in Transport.backlogs: received before the connection came to this ring
	isRoomless         // in Transport.roomless
)

const (
	chunk = 256 // records that are made at a time, as in package tcp
	none  = -1  // ends lists; it is no index
)

func (t *Transport) record(id tcp.ID) *record { return &t.records[id/chunk][id%chunk] }

// newRecord makes the record of a connection that the table has made. An earlier record of the number may still be in ready or roomless:
// isReady and isRoomless stay, so that the number is not there twice.
func (t *Transport) newRecord(id tcp.ID) *record {
	for int(id/chunk) >= len(t.records) {
		t.records = append(t.records, new([chunk]record))
	}
	delete(t.sentAgain, id)
	r := t.record(id)
	*r = record{first: none, last: none, next: none, flags: isLive | r.flags&(isReady|isRoomless)}
	return r
}

// countAgain counts a segment that a connection sends again.
func (t *Transport) countAgain(id tcp.ID) {
	if t.sentAgain == nil {
		t.sentAgain = map[tcp.ID]uint32{}
	}
	t.sentAgain[id]++
}

// markReady notes that a connection has something to report.
func (t *Transport) markReady(id tcp.ID, r *record) {
	if r.flags&(isReady|isOpen) == isOpen {
		r.flags |= isReady
		t.ready = append(t.ready, int32(id))
	}
}

// errnos are the errors that sockets receive, by the reason for which their connection failed.
var errnos = [...]syscall.Errno{tcp.ReasonReset: syscall.ECONNRESET, tcp.ReasonRefused: syscall.ECONNREFUSED,
	tcp.ReasonTimeout: syscall.ETIMEDOUT, tcp.ReasonKeepAlive: syscall.ETIMEDOUT, tcp.ReasonUnreachable: syscall.EHOSTUNREACH,
	tcp.ReasonProtocol: syscall.ECONNREFUSED, tcp.ReasonLinger: syscall.ETIMEDOUT}

// takeEvents moves the table's events into the records. It reports nothing to sockets: Report does. It must run before a call that makes a
// connection, because the new one may get the number of an old one whose EventGone is still in the list.
func (t *Transport) takeEvents() {
	for t.table.HasEvents() {
		list := t.table.Events()
		for i := range list {
			t.event(&list[i])
		}
	}
}

// event applies one event of the table to its piece, arrival, listener or record, and marks a connection that has something to report.
func (t *Transport) event(e *tcp.Event) {
	switch e.Kind {
	case tcp.EventSent:
		t.confirmed(int32(e.Payload.Buffer))
		return
	case tcp.EventDropped:
		t.dropArrival(int32(e.Payload.Buffer))
		return
	case tcp.EventAccepted:
		t.addChild(e.Conn, e.Listener)
		return
	}
	r := t.record(e.Conn)
	switch e.Kind {
	case tcp.EventData:
		t.addArrival(r, e.Payload)
	case tcp.EventConnected:
		r.flags |= hasConnected
		t.recordFlow(e.Conn)
	case tcp.EventEnd:
		r.flags |= hasEnded
	case tcp.EventAcked:
		if !t.wantsAck(r) {
			return
		}
		r.flags |= hasAcked
	case tcp.EventFailed:
		r.flags |= hasFailed
		r.reason = e.Reason
	case tcp.EventWarning:
		if e.Reason == tcp.ReasonNextHop {
			t.examineNextHop(e.Conn, r)
		}
		return
	case tcp.EventGone:
		t.forgetFlow(e.Conn)
		t.dropBacklog(e.Conn, r)
		t.gone(r)
		return
	}
	t.markReady(e.Conn, r)
}

// wantsAck reports whether somebody wants to know what the peer has acknowledged.
func (t *Transport) wantsAck(r *record) bool {
	if r.flags&wantsRoom != 0 {
		return true
	}
	s := r.socket.Socket()
	return s != nil && ring.HandleOf(s).OutPerAck
}

// gone ends a record when the table has forgotten its connection. isReady stays: see newRecord.
func (t *Transport) gone(r *record) {
	t.dropArrivals(r)
	t.dropHold(r.hold)
	*r = record{flags: r.flags & isReady, first: none, last: none, next: none}
}

// arrival is received data that was not delivered, or that waits beyond a gap.
type arrival struct {
	packet      buffers.Packet // the frame
	off, length uint32         // the data in it
	next        int32
}

// newArrival takes a place for a frame; its number is the table's name for the frame.
func (t *Transport) newArrival() int32 {
	k := t.freeArrival
	if k == none {
		t.arrivals = append(t.arrivals, arrival{})
		return int32(len(t.arrivals)) - 1
	}
	t.freeArrival = t.arrivals[k].next
	return k
}

func (t *Transport) freeArrivalPlace(k int32) {
	t.arrivals[k] = arrival{next: t.freeArrival}
	t.freeArrival = k
}

// dropArrival releases a frame that is not needed.
func (t *Transport) dropArrival(k int32) {
	_ = t.arrivals[k].packet.Release()
	t.freeArrivalPlace(k)
}

// addArrival puts data in order at the end of its connection's list. Small segments of a connection whose reader has stopped are copied
// together, so that they hold no more buffers than their bytes need.
func (t *Transport) addArrival(r *record, p tcp.Payload) {
	k := int32(p.Buffer)
	if r.flags&isClosed != 0 {
		t.dropArrival(k)
		return
	}
	a := &t.arrivals[k]
	a.off, a.length, a.next = p.Offset, p.Length, none
	if r.last == none {
		r.first, r.last = k, k
		return
	}
	if tail := &t.arrivals[r.last]; r.flags&isReading == 0 && t.collapse(tail, a) {
		t.stats.Collapsed++
		t.dropArrival(k)
		return
	}
	t.arrivals[r.last].next = k
	r.last = k
}

// collapse copies a behind tail, into the buffer of tail, and reports whether there was room. Packets of several buffers are left as they are.
func (t *Transport) collapse(tail, a *arrival) bool {
	if tail.packet.NumBuffers() != 1 || a.packet.NumBuffers() != 1 {
		return false
	}
	room, end := tail.packet.Room(), tail.off+tail.length
	if int(end+a.length) > len(room) {
		return false
	}
	if tail.packet.SetLen(int(end+a.length)) != nil {
		return false
	}
	copy(room[end:], a.packet.Bytes()[a.off:a.off+a.length])
	tail.length += a.length
	return true
}

// dropBacklog forgets what a connection had received before it came to this ring.
func (t *Transport) dropBacklog(id tcp.ID, r *record) {
	if r.flags&hasBacklog != 0 {
		delete(t.backlogs, id)
		r.flags &^= hasBacklog
	}
}

// dropArrivals releases what was received and not delivered.
func (t *Transport) dropArrivals(r *record) {
	for r.first != none {
		k := r.first
		r.first = t.arrivals[k].next
		t.dropArrival(k)
	}
	r.last = none
}

// Credit opens the window of a connection by what its application has released.
func (t *Transport) Credit(s *ring.Socket, bytes int) {
	if id := idOfSocket(s); id != tcp.NoID {
		t.table.Credit(t.now(), id, bytes)
	}
}

// now is the time of a call of the application.
func (t *Transport) now() clock.Time { return t.clock() }
