package buffers

import "slices"

// ReadyQueue tells the pool how many small buffers lie ready on one queue of a card. A frame finds a buffer only if one lies ready on the queue
// that the frame arrives on, or if a free one can be put there; what lies ready on other queues cannot be taken from them. So the dynamic rule
// (DriverPool.Over) counts of each queue's buffers only as many as the queue with the fewest has:
//
//	  free beyond the reserve     queue 0     queue 1           queue 2
//	├────────────────────────┼───────────┼──────────────────┼──────────────────┤
//	├────────── counted ─────────────────┤├────────────── apart ───────────────┤
//
// Owner only.
type ReadyQueue struct {
	pool  *DriverPool
	count int32
}

// readyQueues are the queues of a pool.
type readyQueues struct {
	list   []*ReadyQueue
	all    int32 // buffers that lie ready on all of them
	fewest int32 // on the one with the fewest
}

// AddReadyQueue adds a queue of a card, on which no buffer lies ready yet.
func (p *DriverPool) AddReadyQueue() *ReadyQueue {
	q := &ReadyQueue{pool: p}
	p.queues.list = append(p.queues.list, q)
	p.findFewestReady()
	return q
}

// Set sets how many small buffers lie ready on the queue: those that Take returned for it and that are neither filled nor returned.
func (q *ReadyQueue) Set(n int) {
	s, was, count := &q.pool.queues, q.count, int32(n)
	s.all += count - was
	q.count = count
	if was == s.fewest && count > was {
		q.pool.findFewestReady()
		return
	}
	s.fewest = min(s.fewest, count)
	q.pool.apart[Small] = s.all - s.fewest
}

// Remove removes the queue, whose buffers were returned.
func (q *ReadyQueue) Remove() {
	s := &q.pool.queues
	s.list = slices.DeleteFunc(s.list, func(x *ReadyQueue) bool { return x == q })
	s.all -= q.count
	q.pool.findFewestReady()
}

// findFewestReady computes anew what depends on the queue with the fewest buffers.
func (p *DriverPool) findFewestReady() {
	s := &p.queues
	s.fewest = 0
	for i, q := range s.list {
		if i == 0 || q.count < s.fewest {
			s.fewest = q.count
		}
	}
	p.apart[Small] = s.all - s.fewest
}
