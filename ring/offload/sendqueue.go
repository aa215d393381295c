package offload

// sendQueue has the sockets that have something to send, or wait until they can.
type sendQueue struct {
	list    []*entry // with something queued
	spare   []*entry // the other list: sockets may queue while flush works through one
	waiters []*entry // that wait for a buffer to send with
	// awaitsBuffers: a socket in list has a datagram for whose fragments too few buffers are free.
	awaitsBuffers bool
}

// add queues a socket that has something to send.
func (q *sendQueue) add(e *entry) {
	if !e.sending {
		e.sending = true
		q.list = append(q.list, e)
	}
}

// take empties the queue. What it returns is valid until the next take. The caller clears it, and the marks: each before its socket is asked.
func (q *sendQueue) take() []*entry {
	list := q.list
	q.list, q.spare = q.spare[:0], list
	return list
}

// await notes a socket that waits for a buffer.
func (q *sendQueue) await(e *entry) {
	if !e.waiting {
		e.waiting = true
		q.waiters = append(q.waiters, e)
	}
}

// takeWaiters empties the list of those that wait for a buffer. The caller clears their marks, each before its socket is told.
func (q *sendQueue) takeWaiters() []*entry {
	list := q.waiters
	q.waiters = nil // seldom: this allocates when they wait again
	return list
}
