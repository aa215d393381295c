package host

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// GiveUp is why a packet that waited for a neighbour was not sent.
type GiveUp uint8

const (
	GiveUpTime   GiveUp = iota // nobody answered in time
	GiveUpFailed               // the kernel asked and gave up: EHOSTUNREACH
	GiveUpOldest               // a newer packet to the same neighbour needed the place (RFC 1122 2.3.2.2 keeps the latest)
	GiveUpFull                 // other neighbours have all places
	GiveUpClosed               // the flow, the interface or the ring went away

	numGiveUps
)

// String is the reason's stable code.
func (g GiveUp) String() string {
	return [...]string{"neighbour.time", "neighbour.failed", "neighbour.oldest", "neighbour.full", "neighbour.closed"}[g]
}

// Waiting is the queue of packets whose neighbour is not known yet: bounded over all, per neighbour, and in time. A ring has
// one. Owner only; nothing is allocated after NewWaiting.
//
// The packets of a neighbour leave in the order in which they came. What is given up is handed back to the owner, which frees
// it and counts the reason; the counts are kept here as well.
type Waiting[T any] struct {
	limits  WaitingLimits
	entries []waiting[T]
	free    int     // first free entry, -1 for none
	queues  []queue // in the order in which they began: a simulated world must repeat itself, a map would not
	used    int
	seen    *Snapshot // by Check; a new packet's neighbour was looked up by its sender
	counts  [numGiveUps]uint64
	gaveUp  func(packet T, t Target, why GiveUp)
}

// WaitingLimits bound the queue.
type WaitingLimits struct {
	Packets   int           // over all
	PerTarget int           // of one neighbour
	Time      time.Duration // of one packet
}

type waiting[T any] struct {
	packet T
	until  clock.Time
	next   int // in the queue or among the free ones; -1 at the end
}

// queue is the packets of one neighbour: first and last entry, how many, and the snapshot that the first came with.
type queue struct {
	target         Target
	first, last, n int
	since          uint64
}

// NewWaiting makes an empty queue. gaveUp takes back what is not sent; it must not call the queue.
func NewWaiting[T any](l WaitingLimits, gaveUp func(packet T, t Target, why GiveUp)) (*Waiting[T], error) {
	switch {
	case l.Packets <= 0:
		return nil, fmt.Errorf("host: Packets %d: %w", l.Packets, unix.EINVAL)
	case l.PerTarget <= 0 || l.PerTarget > l.Packets:
		return nil, fmt.Errorf("host: PerTarget %d of %d: %w", l.PerTarget, l.Packets, unix.EINVAL)
	case l.Time <= 0:
		return nil, fmt.Errorf("host: Time %v: %w", l.Time, unix.EINVAL)
	case gaveUp == nil:
		return nil, fmt.Errorf("host: gaveUp is nil: %w", unix.EINVAL)
	}
	w := &Waiting[T]{limits: l, gaveUp: gaveUp, entries: make([]waiting[T], l.Packets), queues: make([]queue, 0, l.Packets)}
	for i := range w.entries {
		w.entries[i].next = i + 1
	}
	w.entries[l.Packets-1].next = -1
	return w, nil
}

// Add queues a packet whose neighbour s does not know. The oldest packet of the same neighbour gives way when it has its
// share or no place is left; with none of its own and no place left the packet itself is given up.
func (w *Waiting[T]) Add(now clock.Time, s *Snapshot, t Target, packet T) {
	if s != w.seen {
		w.seen = nil // the next Check looks again: it may have seen a newer one than the sender did
	}
	q := w.find(t)
	if q == nil {
		if w.free < 0 {
			w.giveUp(packet, t, GiveUpFull)
			return
		}
		w.queues = append(w.queues, queue{target: t, first: -1, last: -1, since: s.serial})
		q = &w.queues[len(w.queues)-1]
	}
	if q.n == w.limits.PerTarget || w.free < 0 {
		w.giveUp(w.pop(q), t, GiveUpOldest)
	}
	at := w.free
	w.free = w.entries[at].next
	w.entries[at] = waiting[T]{packet: packet, until: now.Add(w.limits.Time), next: -1}
	if q.last >= 0 {
		w.entries[q.last].next = at
	} else {
		q.first = at
	}
	q.last = at
	q.n++
	w.used++
}

// Check sends what can be sent by s, and gives up what the kernel has given up since. Called with the same snapshot again it
// costs a compare, so it may be called each turn. send must not call the queue. False: the packet cannot be sent now. It stays
// the first of its neighbour, and the next Check sends it.
func (w *Waiting[T]) Check(s *Snapshot, send func(packet T, n Neighbour) bool) {
	if s == w.seen {
		return
	}
	w.seen = s
	for i := range w.queues {
		q := &w.queues[i]
		n, ok := s.Neighbour(q.target)
		switch {
		case ok && n.Usable():
			for q.n > 0 && send(w.entries[q.first].packet, n) {
				w.pop(q)
			}
			if q.n > 0 {
				w.seen = nil
			}
		case ok && n.Failed() && n.Serial > q.since:
			w.giveUpAll(q, GiveUpFailed)
		}
	}
	w.compact()
}

// Expire gives up what has waited too long.
func (w *Waiting[T]) Expire(now clock.Time) {
	for i := range w.queues {
		q := &w.queues[i]
		for q.n > 0 && !now.Before(w.entries[q.first].until) {
			w.giveUp(w.pop(q), q.target, GiveUpTime)
		}
	}
	w.compact()
}

// Deadline is when Expire has something to do: clock.Never when nothing waits.
func (w *Waiting[T]) Deadline() clock.Time {
	next := clock.Never
	for i := range w.queues {
		if at := w.entries[w.queues[i].first].until; at.Before(next) {
			next = at
		}
	}
	return next
}

// Targets calls f for each neighbour that is waited for: to ask for it again. f must not call the queue.
func (w *Waiting[T]) Targets(f func(t Target)) {
	for i := range w.queues {
		f(w.queues[i].target)
	}
}

// Drop gives up all packets to a neighbour.
func (w *Waiting[T]) Drop(t Target) {
	if q := w.find(t); q != nil {
		w.giveUpAll(q, GiveUpClosed)
		w.compact()
	}
}

// DropInterface gives up all packets that were to leave through the interface.
func (w *Waiting[T]) DropInterface(index int) {
	for i := range w.queues {
		if q := &w.queues[i]; q.target.Interface == index {
			w.giveUpAll(q, GiveUpClosed)
		}
	}
	w.compact()
}

// Close gives up everything.
func (w *Waiting[T]) Close() {
	for i := range w.queues {
		w.giveUpAll(&w.queues[i], GiveUpClosed)
	}
	w.compact()
}

// Len is the number of packets that wait; Waits whether one to this neighbour does: then the next must queue behind it.
func (w *Waiting[T]) Len() int            { return w.used }
func (w *Waiting[T]) Waits(t Target) bool { return w.find(t) != nil }

// GivenUp is how many packets were given up for a reason since NewWaiting.
func (w *Waiting[T]) GivenUp(why GiveUp) uint64 { return w.counts[why] }

// find is the queue of a neighbour: a walk, because there are few and this is not the path of packets that have a neighbour.
func (w *Waiting[T]) find(t Target) *queue {
	for i := range w.queues {
		if w.queues[i].target == t {
			return &w.queues[i]
		}
	}
	return nil
}

// pop removes the first packet of a queue and returns it. The caller calls compact when it has finished: the queue may be empty then.
func (w *Waiting[T]) pop(q *queue) T {
	var none T
	at := q.first
	e := &w.entries[at]
	packet := e.packet
	q.first = e.next
	if q.n--; q.n == 0 {
		q.last = -1
	}
	e.packet, e.next = none, w.free
	w.free = at
	w.used--
	return packet
}

// giveUpAll gives up all packets of a queue.
func (w *Waiting[T]) giveUpAll(q *queue, why GiveUp) {
	for q.n > 0 {
		w.giveUp(w.pop(q), q.target, why)
	}
}

// compact removes the queues that are empty.
func (w *Waiting[T]) compact() {
	w.queues = slices.DeleteFunc(w.queues, func(q queue) bool { return q.n == 0 })
}

// giveUp counts a packet that is given up and hands it back to the owner.
func (w *Waiting[T]) giveUp(packet T, t Target, why GiveUp) {
	w.counts[why]++
	w.gaveUp(packet, t, why)
}
