package xdp

import "sync/atomic"

// The four queues of an AF_XDP socket are rings in memory shared with the kernel, each with one side that produces and one that
// consumes. An index counts entries since the beginning, runs freely and wraps at 2³²; differences are exact because a ring has far
// fewer entries. Rings know two shared words and a slice, whatever owns the memory: a test can play the kernel and start the indexes
// anywhere.
//
//	          consumer            producer
//	   ───────────┼──────────────────┼──────────►  entries
//	     free     │ written, not read │   free
//
// Each side keeps its own index to itself and stores it once per batch (a store to a shared word costs 7 ns), and loads the other's
// only when what it knows has run out.

// producer is our side of a ring that the kernel reads: fill, transmit.
type producer[T any] struct {
	producer *atomic.Uint32 // ours to store
	consumer *atomic.Uint32 // the kernel's
	flags    *atomic.Uint32 // the kernel's: XDP_RING_NEED_WAKEUP
	entries  []T
	mask     uint32
	next     uint32 // the entry to write next; ahead of the shared producer by what is not published
	seen     uint32 // the consumer when last looked at
}

// room is how many entries can be written: exact when there are fewer than want.
func (r *producer[T]) room(want uint32) uint32 {
	size := r.mask + 1
	if free := size - (r.next - r.seen); free >= want {
		return free
	}
	// The load orders what follows behind it: the kernel has read the entries it gives back before it moved the index (it stores
	// with release), so they may be written now.
	r.seen = r.consumer.Load()
	return size - (r.next - r.seen)
}

// put writes the next entry; at most room times.
func (r *producer[T]) put(v T) {
	r.entries[r.next&r.mask] = v
	r.next++
}

// publish shows the kernel what was written. The index is stored last, so that the kernel, which loads it with acquire, never sees an
// entry that is not written yet.
func (r *producer[T]) publish() { r.producer.Store(r.next) }

// unread is how many written entries the kernel has not read yet, publishing aside.
func (r *producer[T]) unread() uint32 { return r.next - r.consumer.Load() }

// consumer is our side of a ring that the kernel writes: completion, receive.
type consumer[T any] struct {
	producer *atomic.Uint32 // the kernel's
	consumer *atomic.Uint32 // ours to store
	entries  []T
	mask     uint32
	next     uint32 // the entry to read next; ahead of the shared consumer by what is not released
	seen     uint32 // the producer when last looked at
}

// ready is how many entries can be read; the kernel's index is looked at only when none is known of.
func (r *consumer[T]) ready() uint32 {
	if n := r.seen - r.next; n != 0 {
		return n
	}
	// The load orders the reads of the entries behind it: the kernel wrote them before it stored the index with release.
	r.seen = r.producer.Load()
	return r.seen - r.next
}

// take reads the next entry; at most ready times.
func (r *consumer[T]) take() T {
	v := r.entries[r.next&r.mask]
	r.next++
	return v
}

// release gives the entries that were taken back to the kernel. The store orders the reads of the entries before it: the kernel, which
// loads the index with acquire, writes to a place only after it was read.
func (r *consumer[T]) release() { r.consumer.Store(r.next) }
