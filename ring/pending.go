package ring

import (
	"net/netip"

	"github.com/socketxtreme/socketxtreme/buffers"
)

// Each socket has one pending record, as in VMA: flags are OR-ed into it, user data is latched when the first is raised, and
// it stands in the ring's ready list once. Unlike VMA's it holds a queue of packets, so that none overwrites another.

// record is one queued packet, or one finished send.
type record struct {
	packet      buffers.Packet
	source      netip.AddrPort
	destination netip.AddrPort
	ifIndex     uint32
	next        int32 // of the slab
	time        Stamp
	token       uint64
	sent        bool
	copied      bool  // to be sent: nobody waits for its end
	file        bool  // to be sent: the next of Socket.files
	viaKernel   bool  // see Completion.ViaKernel
	route       int32 // see Transmission.Route
	err         error
}

// completionUserData is the user data of the completion being written: as latched when the record became pending, or as it is now.
func (s *Socket) completionUserData() uint64 {
	if s.ready {
		return s.latched
	}
	return s.userData
}

// fill writes the record into c as a completion of s.
func (rec *record) fill(c *Completion, s *Socket) {
	*c = Completion{UserData: s.completionUserData(), Socket: s, Err: rec.err}
	if rec.sent {
		c.Events, c.Token = EventSent, rec.token
		if !rec.time.IsZero() {
			c.Events, c.Time = EventTxTimestamp, rec.time
		}
		return
	}
	c.Events = EventPacket
	c.Packet = rec.packet
	c.Source = rec.source
	c.Destination = rec.destination
	c.IfIndex = rec.ifIndex
	c.Time = rec.time
	c.ViaKernel = rec.viaKernel
}

// slab keeps records in one slice with a free list: queueing allocates only while the slab grows to its high-water mark, which
// the number of buffers bounds.
type slab struct {
	records   []record
	firstFree int32 // 1-based; 0 is none
}

// alloc is a record that is zero, in place: putting one together elsewhere copies its 150 bytes twice.
func (b *slab) alloc() (int32, *record) {
	i := b.firstFree
	if i == 0 {
		b.records = append(b.records, record{})
		i = int32(len(b.records))
		return i, &b.records[i-1]
	}
	rec := &b.records[i-1]
	b.firstFree, rec.next = rec.next, 0
	return i, rec
}

func (b *slab) at(i int32) *record { return &b.records[i-1] }

func (b *slab) free(i int32) (next int32) {
	rec := &b.records[i-1]
	next = rec.next
	*rec = record{next: b.firstFree}
	b.firstFree = i
	return next
}

// queue is a list of records in the slab.
type queue struct {
	head, tail int32
	n          int32
}

func (q *queue) push(b *slab, rec record) {
	rec.next = 0 // it may be a copy of one that was in a queue
	*q.add(b) = rec
}

// add appends a record that is zero, for the caller to fill in at once: the pointer is good until the next one is added.
func (q *queue) add(b *slab) *record {
	i, rec := b.alloc()
	if q.tail == 0 {
		q.head = i
	} else {
		b.at(q.tail).next = i
	}
	q.tail = i
	q.n++
	return rec
}

func (q *queue) pop(b *slab) {
	q.head = b.free(q.head)
	if q.head == 0 {
		q.tail = 0
	}
	q.n--
}

// enqueue appends a packet to the socket's queue. In the queue modes it waits there for Receive; only flags make the socket ready.
func (s *Socket) enqueue(rec record) {
	s.received.push(&s.ring.slab, rec)
	s.waiting += rec.packet.Len()
	if s.mode == Completions && !s.suspended() {
		s.makeReady()
	}
}

// raise adds flags to the pending record. The first error that is raised is the one reported.
func (s *Socket) raise(e Event, err error) {
	s.flags |= e
	if s.cause == nil {
		s.cause = err
	}
	s.makeReady()
}

// makeReady puts the socket at the end of the ring's ready list and latches its user data, if it is not there yet.
func (s *Socket) makeReady() {
	if s.ready {
		return
	}
	s.latched = s.userData
	s.addReady()
}

func (s *Socket) addReady() {
	s.ready = true
	r := s.ring
	if r.readyTail == nil {
		r.readyHead = s
	} else {
		r.readyTail.nextReady = s
	}
	r.readyTail = s
}

func (r *Ring) popReady() *Socket {
	s := r.readyHead
	r.readyHead = s.nextReady
	if r.readyHead == nil {
		r.readyTail = nil
	}
	s.nextReady = nil
	return s
}

// deliver writes ready sockets into the sink, each at most once, so that one with a long queue does not hold up the others for
// ever: what did not fit goes to the end of the list.
func (r *Ring) deliver(k *Sink) {
	last := r.readyTail
	for r.readyHead != nil && k.Room() > 0 {
		s := r.popReady()
		if s.announcedThisPoll() {
			// NEW_CONNECTION went out in this very Poll and the application has not seen it yet. The latch stays open: the user
			// data it may set now is to be on what follows.
			s.addReady()
		} else {
			s.deliver(k)
		}
		if s == last {
			return
		}
	}
}

// The order within a pending record: NEW_CONNECTION, OUT and PATH go with the first completion, packets and finished sends follow in
// order, what reports an end goes with or after the last packet, CLOSED stands alone at the end.
const leading = EventNewConnection | EventOut | EventPath

// deliver writes what the socket has pending, as far as the sink has room.
func (s *Socket) deliver(k *Sink) {
	if s.unseen.n > 0 {
		k.runCallbackUnseen(s)
	}
	for k.Room() > 0 {
		flags := s.flags & leading
		first := s.nextQueue()
		if s.mayReportEnd() && first != &s.done { // an EventSent has an Err of its own
			flags |= s.flags & trailing
		}
		if first == nil && flags == 0 {
			break
		}
		c := &k.dst[k.n]
		k.n++
		if first != nil {
			s.popRecord(c, first)
		} else {
			*c = Completion{UserData: s.latched, Socket: s, Source: s.remote, Destination: s.local}
		}
		c.Events |= flags
		s.flags &^= flags
		if flags.Has(EventOut) && s.late != nil {
			c.Err, s.late = s.late, nil
		}
		if flags.Any(trailing) {
			if c.Err == nil {
				c.Err = s.cause
			}
			s.cause = nil
		}
		if flags.Has(EventNewConnection) {
			c.Listener, c.Source, c.Destination = s.listener, s.remote, s.local
			s.announcedTurn = s.ring.turn
			break // nothing more of it until the next Poll
		}
	}
	s.ready = false
	switch {
	case s.deliverable():
		s.makeReady() // latched afresh: what had been raised before was delivered
	case s.flags == EventClosed && k.Room() > 0:
		k.dst[k.n] = Completion{Events: EventClosed, UserData: s.userData, Socket: s}
		k.n++
		s.flags = 0
		s.removeFromRing()
	case s.flags == EventClosed:
		s.makeReady()
	}
}

// nextQueue is the queue that holds the record to deliver next, nil when there is none: packets first (in the queue modes they wait
// for Receive, on a suspended socket for Resume), then finished sends.
func (s *Socket) nextQueue() *queue {
	if s.received.n > 0 && s.mode == Completions && !s.suspended() {
		return &s.received
	}
	if s.done.n > 0 {
		return &s.done
	}
	return nil
}

// popRecord moves the first record of q into c.
func (s *Socket) popRecord(c *Completion, q *queue) {
	rec := s.ring.slab.at(q.head)
	rec.fill(c, s)
	if !rec.sent {
		s.ring.pool.Deliver(rec.packet)
		s.waiting -= rec.packet.Len()
	}
	q.pop(&s.ring.slab)
}

// mayReportEnd reports whether flags that tell of an end may go out with the completion being written: the packet in it, if any, is
// the last, and the socket is not suspended. In the queue modes the packets stay behind for Receive, as with epoll.
func (s *Socket) mayReportEnd() bool {
	return !s.suspended() && (s.mode != Completions || s.received.n <= 1)
}

// deliverable reports whether the socket still has something to deliver, CLOSED apart.
func (s *Socket) deliverable() bool {
	return s.unseen.n > 0 && !s.suspended() || s.nextQueue() != nil || s.flags&leading != 0 || s.flags&trailing != 0 && s.mayReportEnd()
}

// dropReceived releases the packets that the application will not see any more.
func (s *Socket) dropReceived() {
	b := &s.ring.slab
	for s.received.n > 0 {
		s.ring.stats.ClosedDrops++
		_ = b.at(s.received.head).packet.Release()
		s.received.pop(b)
	}
	for s.unseen.n > 0 {
		s.ring.stats.ClosedDrops++
		_ = b.at(s.unseen.head).packet.Release()
		s.unseen.pop(b)
	}
	s.waiting = 0
}
