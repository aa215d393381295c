package epoll

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
)

// record is the driver's state of one socket. The fields that receiving uses come first.
type record struct {
	s        *ring.Socket // nil while the slot is empty, also for frames further up that still hold the record
	gen      uint32
	fd       int32
	reads    uint32 // the events that mean reading: EPOLLIN, on streams EPOLLRDHUP as well
	interest uint32 // the entry in the epoll list; 0 when there is none
	kind     ring.SocketKind
	burst    uint8 // datagrams to try for in one turn

	wantsRead  bool // reading is wanted
	broken     bool // an error or hang-up was reported while reading was stopped: what is left is read all the same
	held       bool // reading waits for buffers or budget: not even a broken connection is read until SetReceiving
	ended      bool // the peer's FIN was reported
	failed     bool // the failure was reported: nothing more will be
	inDeferred bool // in driver.deferred
	notify     bool // one Writable is owed
	sending    bool // current is under way
	hot        bool // in driver.hot
	unshared   bool // hot, and epoll does not watch it

	sendError   syscall.Errno // a send failed with it, which took it from the socket: how the stream really ended
	notifyAfter uint64        // the batch that was fetched last when notify was set: its EPOLLOUT is older than the request

	current ring.Transmission
	rest    buffers.Buffer // where current goes on
	off     int            // bytes of rest that are sent
}

// clear empties the record. inDeferred belongs to the slot and stays: driver.deferred lists slots.
func (r *record) clear() { *r = record{inDeferred: r.inDeferred} }

// table finds records by slot. They are made in chunks, so that growing never moves one: sink calls that attach sockets happen
// while records are in use.
type table struct{ chunks []*[chunkSize]record }

const chunkSize = 64

// add makes the record of a socket.
func (t *table) add(s *ring.Socket) {
	h := ring.HandleOf(s)
	for int(h.Slot/chunkSize) >= len(t.chunks) {
		t.chunks = append(t.chunks, new([chunkSize]record))
	}
	r := t.slot(h.Slot)
	r.clear()
	r.s, r.gen, r.fd, r.kind, r.burst = s, h.Gen, int32(h.Conn), h.Kind, 1
	r.reads = unix.EPOLLIN
	if h.Kind == ring.KindStream {
		r.reads |= unix.EPOLLRDHUP
	}
}

// slot is the record of a slot that was used before.
func (t *table) slot(slot uint32) *record { return &t.chunks[slot/chunkSize][slot%chunkSize] }

// find is the record an event was reported for; nil when the event is stale.
func (t *table) find(slot, gen uint32) *record {
	if int(slot/chunkSize) >= len(t.chunks) {
		return nil
	}
	if r := t.slot(slot); r.s != nil && r.gen == gen {
		return r
	}
	return nil
}

// of is the record of a socket; nil when it is not attached.
func (t *table) of(s *ring.Socket) *record {
	h := ring.HandleOf(s)
	if r := t.find(h.Slot, h.Gen); r != nil && r.s == s {
		return r
	}
	return nil
}
