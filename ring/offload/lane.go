package offload

import (
	"runtime"
	"sync/atomic"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/stack"
	"github.com/socketxtreme/socketxtreme/udp"
)

// lane takes datagrams from one driver to another: a queue with one producer and one consumer. The consumer copies each payload out of
// the producer's buffer, and the place it has come to (head) is what gives the buffers back: the producer releases the packets behind
// it at its next turn. So no count of a packet is shared, and nothing is locked.
//
// Copied, although a handle could have crossed: a Packet belongs to the goroutine of its pool, with plain counts, its account there, and
// its memory registered with that pool's card. A foreign one among a ring's own would need a second kind of packet in every completion,
// a budget in somebody else's pool, and could not be sent on. The copy costs what BenchmarkHandOver says; it is made only for datagrams
// that came in on another ring's queue.
//
//	producer   packets[freed … next)   lent: the consumer may be reading them
//	                   ▲ head               ▲ tail
//	consumer           └── copied up to     └── may be read
type lane struct {
	slots  []slot
	mask   uint32
	region []byte  // of the producer's pool
	to     *driver // consumer

	packets     []buffers.Packet // producer's, by slot
	next, freed uint32           // producer's; indexes run freely and wrap at 2³²

	_      [64]byte
	tail   atomic.Uint32 // stored by the producer after the slots before it were written
	_      [64]byte
	head   atomic.Uint32 // stored by the consumer after the payloads before it were copied
	busy   atomic.Bool   // the consumer is copying
	closed atomic.Bool   // one of the two has left
}

// slot is a datagram on its way. No pointers: the collector passes the lane by.
type slot struct {
	off, len uint32 // of the payload in the region
	id       udp.ID
	clock    uint8
	owner    uint64
	nanos    int64
	flow     udp.Flow
}

// lanesByTo finds the lane to a driver by its number.
type lanesByTo [stack.MaxStacks + 1]*lane

const (
	laneMin = 16
	laneMax = 1024 // 10 ms at 100,000 datagrams a second
)

// lendable is how many packets of a pool may be with other drivers at a time: a quarter, so that readers who are slow leave enough for the
// card.
func lendable(pool *buffers.Pool) int {
	l := pool.Layout()
	return max((l.SmallCount+l.LargeCount)/4, 1)
}

func newLane(from *buffers.Pool, to *driver) *lane {
	n := laneMin
	for n < laneMax && 2*n <= lendable(from) {
		n *= 2
	}
	return &lane{slots: make([]slot, n), mask: uint32(n - 1), region: from.Region(), to: to, packets: make([]buffers.Packet, n)}
}

// full tells the producer that no slot is free.
func (l *lane) full() bool { return l.next-l.freed > l.mask }

// put lends the delivery's packet; publish shows it to the consumer, once for a burst. There is room.
func (l *lane) put(pool *buffers.Pool, x *stack.Delivery) {
	at := pool.Place(x.Packet)
	i := l.next & l.mask
	l.slots[i] = slot{off: at.Off, len: at.Len, id: x.ID, clock: x.Clock, owner: x.Owner, nanos: x.Nanos, flow: x.Flow}
	l.packets[i] = x.Packet
	l.next++
}

// publish stores the tail after the slots: who sees it sees them. The consumer announces its sleep before it looks at the tail a last
// time, and the announcement is looked for after the tail was stored (rouse): Go's atomics are sequentially consistent, so one of the two
// notices the other.
func (l *lane) publish() {
	if l.tail.Load() != l.next {
		l.tail.Store(l.next)
		l.to.rouse()
	}
}

// reclaim releases the packets that the consumer has copied, all of them when one of the two has left. Producer. It returns how many
// came back, and how many of those nobody had read.
func (l *lane) reclaim() (n, unread int) {
	head := l.head.Load() // before closed: what was read before is not counted as unread
	to := head
	if l.closed.Load() {
		to = l.next
		unread = int(l.next - l.head.Load())
		unread = min(unread, int(l.next-l.freed)) // what was taken back before was counted then
	}
	for ; l.freed != to; l.freed++ {
		p := &l.packets[l.freed&l.mask]
		_ = p.Release() // a reference of the lane's own
		*p = buffers.Packet{}
		n++
	}
	return n, unread
}

// shut is the producer's leaving: afterwards the consumer reads nothing here. It waits for a copy of one burst at most, some microseconds
// unless the consumer's thread was just taken off its processor.
func (l *lane) shut() {
	l.closed.Store(true)
	for l.busy.Load() {
		runtime.Gosched()
	}
}

// ready tells the consumer that there is something.
func (l *lane) ready() bool { return l.tail.Load() != l.head.Load() && !l.closed.Load() }

// begin lets the consumer read; false when the producer is gone. The mark is set before closed is looked at, and shut does it the other way
// round.
func (l *lane) begin() bool {
	l.busy.Store(true)
	if l.closed.Load() {
		l.busy.Store(false)
		return false
	}
	return true
}

// end gives back what was read up to head.
func (l *lane) end(head uint32) {
	l.head.Store(head)
	l.busy.Store(false)
}
