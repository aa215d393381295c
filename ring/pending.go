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
	sent        bool  // a finished send or a transmit stamp, not a received packet
	copied      bool  // to be sent: a copy that Send made, whose end is not reported
	file        bool  // to be sent: the next of Socket.files
	viaKernel   bool  // see Completion.ViaKernel
	route       int32 // see Transmission.Route
	err         error
}

// completionUserData is the user data of the completion being written: as latched when the record became pending, or as it is now.
func (s *Socket) completionUserData() uint64 {
	if s.ready {
		return s.active().latched
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
	used      int
}

// alloc is a record that is zero, in place: putting one together elsewhere copies its 150 bytes twice.
func (b *slab) alloc() (int32, *record) {
	b.used++
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

// free puts a record on the free list and returns the one that followed it in its queue.
func (b *slab) free(i int32) (next int32) {
	b.used--
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

// push appends a copy of rec.
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

// addFirst puts a record that is zero before all others, for the caller to fill in at once.
func (q *queue) addFirst(b *slab) *record {
	i, rec := b.alloc()
	if rec.next = q.head; q.head == 0 {
		q.tail = i
	}
	q.head = i
	q.n++
	return rec
}

// pop frees the first record; there must be one.
func (q *queue) pop(b *slab) {
	q.head = b.free(q.head)
	if q.head == 0 {
		q.tail = 0
	}
	q.n--
}

// enqueue appends a packet to the socket's queue. In the queue modes it waits there for Receive; only flags make the socket ready.
func (s *Socket) enqueue(r *Ring, rec record) {
	a := s.activate()
	a.received.push(&r.slab, rec)
	a.waiting += rec.packet.Len()
	if s.mode == Completions && !s.suspended() {
		s.makeReady()
	}
}

// raise adds flags to the pending record. The first error that is raised is the one reported.
func (s *Socket) raise(e Event, err error) {
	a := s.activate()
	a.flags |= e
	if a.endErr == nil {
		a.endErr = err
	}
	s.makeReady()
}

// makeReady puts the socket at the end of the ring's ready list and latches its user data, if it is not there yet.
func (s *Socket) makeReady() {
	if s.ready {
		return
	}
	s.activate().latched = s.userData
	s.addReady(s.ring())
}

// addReady appends the socket to the ring's ready list.
func (s *Socket) addReady(r *Ring) {
	s.ready = true
	if r.readyTail == nil {
		r.readyHead = s
	} else {
		r.readyTail.active().nextReady = s // a ready socket has an active state of its own: makeReady
	}
	r.readyTail = s
}

// popReady takes the first socket off the ready list; there must be one. The socket keeps its ready flag until deliver clears it.
func (r *Ring) popReady() *Socket {
	s := r.readyHead
	a := s.active()
	r.readyHead = a.nextReady
	if r.readyHead == nil {
		r.readyTail = nil
	}
	a.nextReady = nil
	return s
}

// deliver writes ready sockets into the sink, each at most once, so that one with a long queue does not hold up the others for
// ever: what did not fit goes to the end of the list.
func (r *Ring) deliver(k *Sink) {
	last := r.readyTail
	for r.readyHead != nil && k.Room() > 0 {
		s := r.popReady()
		if s.announced {
			// This Poll reports NEW_CONNECTION, and the application has not seen it yet. The user data is not latched: what follows
			// carries the user data that the application sets now.
			s.addReady(r)
		} else {
			s.deliver(k)
			s.deactivateIfIdle()
		}
		if s == last {
			return
		}
	}
}

// The order within a pending record: NEW_CONNECTION, OUT and PATH go with the first completion, packets and finished sends follow in
// order, what reports an end goes with or after the last packet, then deadlines that have passed, alone: their error is theirs, and that of an
// end or of a send keeps its own. CLOSED stands alone at the end.
const leading = EventNewConnection | EventOut | EventPath

// deliver writes the completions that the socket has pending, as far as the sink has room. What does not fit makes the socket ready again.
func (s *Socket) deliver(k *Sink) {
	a := s.active()
	if a.unseen.n > 0 {
		k.runCallbackUnseen(s)
	}
	for k.Room() > 0 {
		flags := a.flags & leading
		first := s.nextQueue(a)
		if s.mayReportEnd(a) && first != &a.done { // an EventSent has an Err of its own
			flags |= a.flags & trailing
		}
		if first == nil && flags == 0 {
			s.deliverDeadlines(k)
			break
		}
		c := &k.dst[k.n]
		k.n++
		if first != nil {
			s.popRecord(k.ring, c, first)
		} else {
			*c = Completion{UserData: a.latched, Socket: s, Source: s.remote(), Destination: s.local()}
		}
		c.Events |= flags
		a.flags &^= flags
		if flags.Any(trailing) {
			if c.Err == nil {
				c.Err = a.endErr
			}
			a.endErr = nil
		}
		if flags.Has(EventNewConnection) {
			c.Listener, c.Source, c.Destination = a.listener, s.remote(), s.local()
			a.listener = nil
			s.announced = true
			k.ring.announced = append(k.ring.announced, s)
			break // the next completion comes with the next Poll: see Ring.deliver
		}
	}
	s.ready = false
	switch {
	case s.deliverable(a):
		s.makeReady() // latched afresh: what had been raised before was delivered
	case a.flags == EventClosed && k.Room() > 0:
		k.dst[k.n] = Completion{Events: EventClosed, UserData: s.userData, Socket: s}
		k.n++
		a.flags = 0
		s.removeFromRing()
	case a.flags == EventClosed: // the sink is full
		s.makeReady()
	}
}

// deadlines are the deadlines to be told: those of a suspended socket's reading wait for Resume.
func (s *Socket) deadlines(a *activeState) Event {
	if s.suspended() {
		return a.passed &^ EventIn
	}
	return a.passed
}

// deliverDeadlines writes the completion that tells of deadlines which have passed, if there are any. There must be room.
func (s *Socket) deliverDeadlines(k *Sink) {
	a := s.active()
	e := s.deadlines(a)
	if e == 0 {
		return
	}
	k.dst[k.n] = Completion{Events: e, UserData: a.latched, Socket: s, Source: s.remote(), Destination: s.local(), Err: ErrDeadline}
	k.n++
	a.passed &^= e
}

// nextQueue is the queue that holds the record to deliver next, nil when there is none: packets first (in the queue modes they wait
// for Receive, on a suspended socket for Resume), then finished sends.
func (s *Socket) nextQueue(a *activeState) *queue {
	if a.received.n > 0 && s.mode == Completions && !s.suspended() {
		return &a.received
	}
	if a.done.n > 0 {
		return &a.done
	}
	return nil
}

// popRecord moves the first record of q into c. A received packet becomes the application's in the pool and counts no more as waiting.
func (s *Socket) popRecord(r *Ring, c *Completion, q *queue) {
	rec := r.slab.at(q.head)
	rec.fill(c, s)
	if !rec.sent {
		r.pool.Deliver(rec.packet)
		s.active().waiting -= rec.packet.Len()
	}
	q.pop(&r.slab)
}

// mayReportEnd reports whether flags that tell of an end may go out with the completion being written: the packet in it, if any, is
// the last, and the socket is not suspended. In the queue modes the packets stay behind for Receive, as with epoll.
func (s *Socket) mayReportEnd(a *activeState) bool {
	return !s.suspended() && (s.mode != Completions || a.received.n <= 1)
}

// deliverable reports whether the socket still has something to deliver, CLOSED apart.
func (s *Socket) deliverable(a *activeState) bool {
	return a.unseen.n > 0 && !s.suspended() || s.nextQueue(a) != nil || a.flags&leading != 0 || a.flags&trailing != 0 && s.mayReportEnd(a) ||
		s.deadlines(a) != 0
}

// dropReceived releases the packets that the application will not see any more.
func (s *Socket) dropReceived() {
	a := s.active()
	if a.received.n == 0 && a.unseen.n == 0 {
		return
	}
	r := s.ring()
	b := &r.slab
	for a.received.n > 0 {
		r.stats.ClosedDrops++
		_ = b.at(a.received.head).packet.Release()
		a.received.pop(b)
	}
	for a.unseen.n > 0 {
		r.stats.ClosedDrops++
		_ = b.at(a.unseen.head).packet.Release()
		a.unseen.pop(b)
	}
	a.waiting = 0
}
