package tcp

// queue is a ring that grows to the power of two it needs and is used again.
type queue[T any] struct {
	ring []T
	head int
	n    int
}

func (q *queue[T]) len() int { return q.n }

// at is the element i places behind the first.
func (q *queue[T]) at(i int) *T { return &q.ring[(q.head+i)&(len(q.ring)-1)] }

// push puts v behind the last element.
func (q *queue[T]) push(v T) {
	if q.n == len(q.ring) {
		q.widen()
	}
	q.n++
	*q.at(q.n - 1) = v
}

// pop removes the first element; there must be one.
func (q *queue[T]) pop() T {
	v := *q.at(0)
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return v
}

// insert puts v in front of the element that is i places behind the first.
func (q *queue[T]) insert(i int, v T) {
	q.push(v)
	for j := q.n - 1; j > i; j-- {
		*q.at(j) = *q.at(j - 1)
	}
	*q.at(i) = v
}

func (q *queue[T]) clear() { q.head, q.n = 0, 0 }

// widen doubles the ring (from nothing: 8 places) and puts the first element at its start.
func (q *queue[T]) widen() {
	ring := make([]T, max(2*len(q.ring), 8))
	for i := range q.n {
		ring[i] = *q.at(i)
	}
	q.ring, q.head = ring, 0
}
