package memory

import (
	"sync/atomic"

	"github.com/socketxtreme/socketxtreme/internal/sys"
)

// queue takes frames one way: one goroutine produces, one consumes. Its indexes run freely and wrap at 2³².
type queue struct {
	slab    []byte // one place of size bytes for each slot
	lens    []uint32
	size    int
	mask    uint32
	eventfd sys.EventFD // wakes the consumer

	_      [64]byte
	tail   atomic.Uint32 // first slot not yet shown to the consumer; moved by publish
	next   uint32        // producer's: next slot to write
	seen   uint32        // producer's: head when last looked at
	full   atomic.Uint64 // frames lost because no slot was free
	_      [64]byte
	head   atomic.Uint32 // first slot that holds a frame; moved by the consumer
	armed  atomic.Bool   // the consumer sleeps: publish signals the eventfd
	closed atomic.Bool   // the consumer is gone
	users  atomic.Int32  // ends that have not left
}

// newQueue makes a queue of slots for frames of up to size bytes, used by two ends.
func newQueue(slots, size int) (*queue, error) {
	eventfd, err := sys.NewEventFD()
	if err != nil {
		return nil, err
	}
	q := &queue{slab: make([]byte, slots*size), lens: make([]uint32, slots), size: size, mask: uint32(slots - 1), eventfd: eventfd}
	q.users.Store(2)
	return q, nil
}

// leave ends the use of the queue by one end. The second call closes the eventfd, which the end that is left may signal until then.
func (q *queue) leave() error {
	if q.users.Add(-1) > 0 {
		return nil
	}
	return q.eventfd.Close()
}

// slot is the place of slot i.
func (q *queue) slot(i uint32) []byte {
	at := int(i&q.mask) * q.size
	return q.slab[at : at+q.size : at+q.size]
}

// reserve is the next place to write a frame to, nil when all are taken. Until commit it returns the same place. The consumer's head is loaded
// only when all slots were taken by the head last seen.
func (q *queue) reserve() []byte {
	if q.next-q.seen > q.mask {
		if q.seen = q.head.Load(); q.next-q.seen > q.mask {
			return nil
		}
	}
	return q.slot(q.next)
}

// commit makes the reserved place a frame of n bytes.
func (q *queue) commit(n int) {
	q.lens[q.next&q.mask] = uint32(n)
	q.next++
}

// publish shows the consumer all that was committed: the tail is stored after the frames, so that a consumer that sees it sees them. A
// consumer announces its sleep before it looks at the tail a last time, and the announcement is looked for here after the tail was
// stored: one of the two notices the other.
func (q *queue) publish() {
	if q.tail.Load() == q.next {
		return
	}
	q.tail.Store(q.next)
	if q.armed.Load() && q.armed.CompareAndSwap(true, false) {
		q.eventfd.Signal()
	}
}

// ready is how many frames the consumer can take.
func (q *queue) ready() uint32 { return q.tail.Load() - q.head.Load() }
