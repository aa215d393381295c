package handoff

import (
	"runtime"
	"sync/atomic"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/udp"
)

// Queue takes datagrams from one ring to another: one producer and one consumer. The consumer copies each payload out of
// the producer's buffer, and the place it has come to (head) is what returns the buffers: the producer releases the packets behind
// it at its next turn. So no count of a packet is shared, and nothing is locked.
//
// Copied, although a handle could have crossed: a Packet belongs to the goroutine of its pool, with plain counts, its account there, and
// its memory registered with that pool's card. One of another pool among a ring's own would need a second kind of packet in every completion,
// a budget in another ring's pool, and could not be sent on. The copy costs what BenchmarkQueue says; it is made only for datagrams
// that came in on another ring's queue.
//
//	producer   packets[freed … next)   the consumer may be reading them
//	                   ▲ head               ▲ tail
//	consumer           └── copied up to     └── may be read
type Queue struct {
	slots  []slot
	mask   uint32
	region []byte // of the producer's pool
	to     *Port  // consumer

	packets     []buffers.Packet // producer's, by slot
	next, freed uint32           // producer's; indexes run freely and wrap at 2³²

	_      [64]byte
	tail   atomic.Uint32 // stored by the producer after the slots before it were written
	_      [64]byte
	head   atomic.Uint32 // stored by the consumer after the payloads before it were copied
	busy   atomic.Bool   // the consumer is copying
	closed atomic.Bool   // one of the two has left
}

// slot is a datagram on its way. No pointers: the collector passes the queue by.
type slot struct {
	off, len uint32 // of the payload in the region; of a segment, of its IPv4 packet
	id       udp.ID
	to       int32 // 0, or ToTCP
	clock    link.Clock
	owner    uint64
	nanos    int64
	flow     udp.Flow
}

const (
	queueMin = 16
	queueMax = 1024 // 10 ms at 100,000 datagrams a second
)

// lendLimit is how many packets of a pool may be with other drivers at a time, so that slow readers leave enough for the card: two sevenths of
// what receiving may take, a quarter of a pool that keeps an eighth for sending.
func lendLimit(pool *buffers.DriverPool) int {
	return max((pool.ReceiveShare(buffers.Small)+pool.ReceiveShare(buffers.Large))*2/7, 1)
}

// newQueue makes a queue for packets of a pool, with a slot for each that may be lent, within queueMin and queueMax.
func newQueue(from *buffers.DriverPool, to *Port) *Queue {
	n := queueMin
	for n < queueMax && 2*n <= lendLimit(from) {
		n *= 2
	}
	return &Queue{slots: make([]slot, n), mask: uint32(n - 1), region: from.Region(), to: to, packets: make([]buffers.Packet, n)}
}

// isFull reports to the producer that no slot is free, as far as it has reclaimed.
func (q *Queue) isFull() bool { return q.next-q.freed > q.mask }

// push queues a delivery and keeps its packet until the consumer has copied it; publish makes it visible. The queue must not be full.
func (q *Queue) push(pool *buffers.DriverPool, x *udp.Delivery, to int32) {
	at := pool.Place(x.Packet)
	i := q.next & q.mask
	q.slots[i] = slot{off: at.Off, len: at.Len, id: x.ID, to: to, clock: x.Clock, owner: x.Owner, nanos: x.Nanos, flow: x.Flow}
	q.packets[i] = x.Packet
	q.next++
}

// publish stores the tail after the slots: a consumer that sees the tail sees the slots. The consumer announces its sleep before it looks
// at the tail a last time, and the announcement is looked for after the tail was stored (Port.wake): Go's atomics are sequentially
// consistent, so one of the two notices the other.
func (q *Queue) publish() {
	if q.tail.Load() != q.next {
		q.tail.Store(q.next)
		q.to.wake()
	}
}

// reclaim releases the packets that the consumer has copied, all of them when one of the two has left. Producer. It returns how many
// came back, and how many of those no consumer had read.
func (q *Queue) reclaim() (n, unread int) {
	head := q.head.Load() // before closed: what was read before is not counted as unread
	to := head
	if q.closed.Load() {
		to = q.next
		unread = int(q.next - q.head.Load())
		unread = min(unread, int(q.next-q.freed)) // what was taken back before was counted then
	}
	for ; q.freed != to; q.freed++ {
		p := &q.packets[q.freed&q.mask]
		_ = p.Release() // a reference of the queue's own
		*p = buffers.Packet{}
		n++
	}
	return n, unread
}

// closeByProducer is called when the producer's ring is closed: afterwards the consumer reads nothing here. It waits until the consumer has
// copied the burst that it is reading, some microseconds unless the consumer's thread was just taken off its processor.
func (q *Queue) closeByProducer() {
	q.closed.Store(true)
	for q.busy.Load() {
		runtime.Gosched()
	}
}

// IsReady reports to the consumer that datagrams wait.
func (q *Queue) IsReady() bool { return q.tail.Load() != q.head.Load() && !q.closed.Load() }

// Begin lets the consumer read a burst of at most max datagrams, and reports how many there are; 0 when the producer has left. The mark is
// set before closed is looked at, and closeByProducer does it the other way round. After Begin comes End, if it was not 0.
func (q *Queue) Begin(max int) int {
	q.busy.Store(true)
	n := min(int(q.tail.Load()-q.head.Load()), max)
	if n == 0 || q.closed.Load() {
		q.busy.Store(false)
		return 0
	}
	return n
}

// ToTCP is the To that At returns for a packet of SendSegment.
const ToTCP = -1

// At is a datagram of the burst, and its payload in the producer's memory, which is to be copied; or, with To of ToTCP, an IPv4 packet.
func (q *Queue) At(i int) (x udp.Delivery, payload []byte) {
	s := &q.slots[(q.head.Load()+uint32(i))&q.mask]
	return udp.Delivery{ID: s.id, To: s.to, Owner: s.owner, Flow: s.flow, Nanos: s.nanos, Clock: s.clock}, q.region[s.off : s.off+s.len]
}

// End returns the buffers of the burst.
func (q *Queue) End(n int) {
	q.head.Store(q.head.Load() + uint32(n))
	q.busy.Store(false)
}
