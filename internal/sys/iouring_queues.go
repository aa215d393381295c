package sys

import "sync/atomic"

// The queues know two shared indexes, a mask and a slice, whatever owns the memory: a test can play the kernel and start the
// indexes anywhere. Indexes run freely and wrap at 2³²; differences are exact as long as a queue has fewer entries than that.

// SubmissionQueue is where operations are prepared. Owner only; the kernel reads it inside io_uring_enter.
type SubmissionQueue struct {
	kernelHead *atomic.Uint32 // moved by the kernel
	kernelTail *atomic.Uint32 // moved by publish
	flags      *atomic.Uint32
	entries    []SQE
	mask       uint32
	tail       uint32 // next entry to fill; ahead of kernelTail by what is not published
	head       uint32 // kernelHead as it was last read; moves in Enter and EnterWait only
}

// Next is the entry to fill next, zeroed, with its index; it is part of the queue from then on. nil when the queue is full.
func (q *SubmissionQueue) Next() (*SQE, uint32) {
	if q.tail-q.head > q.mask {
		return nil, 0
	}
	i := q.tail & q.mask
	q.tail++
	e := &q.entries[i]
	*e = SQE{}
	return e, i
}

// Pending is how many entries, published or not, the kernel has not consumed, as of the last Enter or EnterWait.
func (q *SubmissionQueue) Pending() uint32 { return q.tail - q.head }

// Len is how many entries the queue has.
func (q *SubmissionQueue) Len() int { return len(q.entries) }

// Flags are the kernel's: UringSQTaskrun, UringSQOverflow.
func (q *SubmissionQueue) Flags() uint32 { return q.flags.Load() }

// publish moves the tail that the kernel reads behind the prepared entries. It is stored after them, so that the kernel never sees an unwritten
// entry.
func (q *SubmissionQueue) publish() {
	if q.kernelTail.Load() != q.tail {
		q.kernelTail.Store(q.tail)
	}
}

// consumed reads how many entries the kernel has taken.
func (q *SubmissionQueue) consumed() { q.head = q.kernelHead.Load() }

// CompletionQueue is where the kernel reports. Owner only.
type CompletionQueue struct {
	kernelHead *atomic.Uint32 // moved by Publish
	kernelTail *atomic.Uint32 // moved by the kernel
	flags      *atomic.Uint32
	entries    []CQE
	mask       uint32
	head       uint32 // next entry to read; ahead of kernelHead by what is not published
}

// Ready returns how many completions can be taken. Its atomic load of the tail comes before the reads of the entries.
func (q *CompletionQueue) Ready() uint32 { return q.kernelTail.Load() - q.head }

// Take reads the next completion; at most Ready times in a row.
func (q *CompletionQueue) Take() CQE {
	c := q.entries[q.head&q.mask]
	q.head++
	return c
}

// Peek reads the completion i places behind the next one without taking it; i is less than Ready.
func (q *CompletionQueue) Peek(i uint32) CQE { return q.entries[(q.head+i)&q.mask] }

// Publish returns the entries that were taken to the kernel. It is called once for a batch, because the store takes 7 ns.
func (q *CompletionQueue) Publish() {
	if q.kernelHead.Load() != q.head {
		q.kernelHead.Store(q.head)
	}
}

// SetFlags sets the flags that the kernel reads: UringCQEventFDDisabled or 0. The store is sequentially consistent: values that are loaded after
// it (the tail, the submission flags) are not older than it.
func (q *CompletionQueue) SetFlags(f uint32) { q.flags.Store(f) }
