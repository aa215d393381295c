package memory

import (
	"syscall"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/memory/protocol"
)

// record is what the host knows of a socket beside the protocol's Conn. It has no pointer. It lives until the socket is closed and the
// protocol has forgotten the connection.
type record struct {
	socket   ring.SocketRef // 0: none, or it is closed
	id       protocol.ID    // protocol.NoID while there is no connection
	listener int32          // of the protocol, from 1 on
	local    protocol.Endpoint
	remote   protocol.Endpoint
	flags    recordFlags
	failure  syscall.Errno

	sendHead, sendTail, sendAt int32 // pieces; sendAt is where the last frame came from
	queued                     int32 // bytes of Send that are not acknowledged
	limit                      int32 // of queued; 0: the host's
	recvHead, recvTail         int32 // arrivals
	waitHead, waitTail, next   int32 // of a listener: children that were not reported; of a child: the next one
	userTimeout                int32 // milliseconds
}

type recordFlags uint16

const (
	inUse        recordFlags = 1 << iota
	isBound                  // local is reserved
	isOpen                   // the socket is on the ring: facts may be reported
	isReading                // SetReceiving is on
	isReady                  // in Host.ready
	isClosed                 // Close was called
	wantsRoom                // NotifyWritable was called
	hasConnected             // this and the next three: facts that were not reported yet
	hasEnded
	hasFailed
	hasAcked
	reportedFailed // Sink.Failed was called: nothing comes after it
)

// arrival is a received piece of a stream. It is a packet, or a buffer that more may come into.
type arrival struct {
	packet buffers.Packet
	buffer uint32
	length int
	next   int32
}

// newRecord makes an empty record and returns its index.
func (h *Host) newRecord() int32 {
	r := record{id: protocol.NoID, flags: inUse, sendHead: none, sendTail: none, sendAt: none, recvHead: none, recvTail: none,
		waitHead: none, waitTail: none, next: none}
	if n := len(h.free); n > 0 {
		i := h.free[n-1]
		h.free = h.free[:n-1]
		h.records[i] = r
		return i
	}
	h.records = append(h.records, r)
	return int32(len(h.records)) - 1
}

// freeRecord gives back the record and its reserved address.
func (h *Host) freeRecord(i int32) {
	r := &h.records[i]
	h.unbind(r)
	*r = record{}
	h.free = append(h.free, i)
}

// unbind gives back the record's reserved address, if it has one.
func (h *Host) unbind(r *record) {
	if r.flags&isBound != 0 {
		r.flags &^= isBound
		h.table.Unbind(r.local)
	}
}

// setConnection notes that record i is that of the protocol's connection id.
func (h *Host) setConnection(i int32, id protocol.ID) {
	for int(id) >= len(h.byID) {
		h.byID = append(h.byID, none)
	}
	h.byID[id] = i
	h.records[i].id = id
}

// recordOf returns the index of a connection's record; none for a connection that was not announced by EventAccepted yet.
func (h *Host) recordOf(id protocol.ID) int32 {
	if int(id) >= len(h.byID) {
		return none
	}
	return h.byID[id]
}

// markReady puts record i into the list of those with facts to report, unless it is there or its socket is not on the ring.
func (h *Host) markReady(i int32) {
	if r := &h.records[i]; r.flags&(isReady|isOpen) == isOpen {
		r.flags |= isReady
		h.ready = append(h.ready, i)
	}
}

// Event implements protocol.Host: it notes in the record what happened to connection id. The fact goes to the sink with the next Reap.
func (g segments) Event(id protocol.ID, e protocol.Event) {
	h := g.Host
	i := h.recordOf(id)
	if e.Kind == protocol.EventAccepted {
		h.addChild(id, e.Listener)
		return
	}
	if i == none {
		return
	}
	r := &h.records[i]
	switch e.Kind {
	case protocol.EventConnected:
		r.flags |= hasConnected
	case protocol.EventAcknowledged:
		r.flags |= hasAcked
		h.removeAcknowledged(i)
	case protocol.EventEnded:
		r.flags |= hasEnded
	case protocol.EventRefused:
		h.connectionFailed(i, syscall.ECONNREFUSED)
	case protocol.EventReset:
		h.connectionFailed(i, syscall.ECONNRESET)
	case protocol.EventTimedOut:
		h.connectionFailed(i, syscall.ETIMEDOUT)
	case protocol.EventGone:
		h.connectionGone(i)
		return
	}
	h.markReady(i)
}

// addChild makes the record of a new child, and puts it behind the others at its listener.
func (h *Host) addChild(id protocol.ID, listener int32) {
	at := h.listening(listener)
	if at == none {
		return // it is being closed
	}
	i := h.newRecord()
	h.setConnection(i, id)
	l := &h.records[at]
	if l.waitTail == none {
		l.waitHead = i
	} else {
		h.records[l.waitTail].next = i
	}
	l.waitTail = i
	h.markReady(at)
}

// listening finds the record of a listener; none when it is being closed.
func (h *Host) listening(number int32) int32 {
	if int(number) >= len(h.byListener) {
		return none
	}
	return h.byListener[number]
}

// connectionFailed notes why connection of record i ended; what was to be sent is given up.
func (h *Host) connectionFailed(i int32, e syscall.Errno) {
	r := &h.records[i]
	r.failure = e
	r.flags |= hasFailed
	h.dropPieces(i, e)
}

// connectionGone handles EventGone: the protocol has freed the connection of record i. The record is freed too if its socket is closed.
func (h *Host) connectionGone(i int32) {
	r := &h.records[i]
	h.dropPieces(i, syscall.ECANCELED)
	h.dropArrivals(i)
	h.byID[r.id] = none
	r.id = protocol.NoID
	if r.flags&isClosed != 0 {
		h.freeRecord(i)
	}
}

// dropArrivals releases what was received and not delivered.
func (h *Host) dropArrivals(i int32) {
	for r := &h.records[i]; r.recvHead != none; {
		a := h.takeArrival(r)
		if a.packet.IsZero() {
			h.pool.Return(a.buffer)
		} else {
			_ = a.packet.Release()
		}
	}
}

// takeArrival removes and returns the first arrival of a record's list, which must not be empty.
func (h *Host) takeArrival(r *record) arrival {
	k := r.recvHead
	a := h.arrivals[k]
	if r.recvHead = a.next; r.recvHead == none {
		r.recvTail = none
	}
	h.arrivals[k] = arrival{next: h.freeArr}
	h.freeArr = k
	return a
}

// Receive implements protocol.Host: it copies n bytes of the payload in Host.input, from off on, into a buffer of the pool. It fills up the last
// buffer of the record first, if no packet was made of that. False: no buffer is free.
func (g segments) Receive(id protocol.ID, off, n int) bool {
	h := g.Host
	i := h.recordOf(id)
	if i == none || h.pool == nil {
		return false
	}
	r := &h.records[i]
	data := h.input[off : off+n]
	class, s := buffers.Small, r.socket.Socket()
	if s != nil {
		class = ring.HandleOf(s).Class
	}
	headroom := h.pool.Layout().Headroom
	if k := r.recvTail; k != none && h.arrivals[k].packet.IsZero() {
		a := &h.arrivals[k] // of the class it was when it was begun
		if room := h.pool.Memory(a.buffer)[headroom+a.length:]; len(room) >= n {
			a.length += copy(room, data)
			h.markReady(i)
			return true
		}
	}
	b, ok := h.pool.Take(class)
	if !ok {
		return false
	}
	copy(h.pool.Memory(b)[headroom:], data)
	k := h.newArrival(arrival{buffer: b, length: n, next: none})
	if class == buffers.Small && s != nil {
		h.fillArrival(k, ring.AccountOf(s)) // one segment, one packet
	}
	h.appendArrival(i, k)
	h.markReady(i)
	return true
}

// appendArrival puts an arrival at the end of a record's list.
func (h *Host) appendArrival(i, k int32) {
	r := &h.records[i]
	if r.recvTail == none {
		r.recvHead = k
	} else {
		h.arrivals[r.recvTail].next = k
	}
	r.recvTail = k
}

// newArrival puts a into a free place of Host.arrivals and returns its index.
func (h *Host) newArrival(a arrival) int32 {
	k := h.freeArr
	if k == none {
		h.arrivals = append(h.arrivals, a)
		return int32(len(h.arrivals)) - 1
	}
	h.freeArr = h.arrivals[k].next
	h.arrivals[k] = a
	return k
}

// fillArrival makes a packet of arrival k, which is charged to the account: no more data comes into its buffer.
func (h *Host) fillArrival(k int32, account buffers.Account) {
	if a := &h.arrivals[k]; a.packet.IsZero() {
		a.packet = h.pool.Fill(a.buffer, h.pool.Layout().Headroom, a.length, account)
	}
}

// Credit opens the window of a stream by what its application has released.
func (h *Host) Credit(s *ring.Socket, bytes int) {
	if r := h.record(s); r.id != protocol.NoID {
		h.table.Credit(h.clock(), r.id, bytes)
	}
}
