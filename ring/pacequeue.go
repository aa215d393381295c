package ring

import "github.com/socketxtreme/socketxtreme/internal/clock"

// paceQueue is the shapers of the sockets that wait for their time to send, a binary heap by that time. Each knows its place, so that
// moving and leaving need no search. It allocates only while it grows.
type paceQueue []*shaper

// set puts a socket's shaper in for the time at, or moves it there.
func (q *paceQueue) set(sh *shaper, at clock.Time) {
	sh.due = at
	if sh.heapIndex == 0 {
		*q = append(*q, sh)
		sh.heapIndex = len(*q)
	}
	q.fix(sh.heapIndex - 1)
}

// remove takes a shaper out of the queue, if it is in it; nil is none.
func (q *paceQueue) remove(sh *shaper) {
	if sh == nil || sh.heapIndex == 0 {
		return
	}
	i, last := sh.heapIndex-1, len(*q)-1
	sh.heapIndex = 0
	moved := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	if i < last {
		q.place(i, moved)
		q.fix(i)
	}
}

// place puts a shaper at index i, and notes that as heapIndex: i+1, because 0 is that of a shaper that is not in the heap.
func (q paceQueue) place(i int, sh *shaper) {
	q[i] = sh
	sh.heapIndex = i + 1
}

func (q paceQueue) before(i, j int) bool { return q[i].due < q[j].due }

// fix restores the order of the heap after the shaper at index i has got another time.
func (q paceQueue) fix(i int) {
	for i > 0 && q.before(i, (i-1)/2) {
		q.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(q); c++ {
			if q.before(c, least) {
				least = c
			}
		}
		if least == i {
			return
		}
		q.swap(i, least)
		i = least
	}
}

func (q paceQueue) swap(i, j int) {
	a, b := q[i], q[j]
	q.place(i, b)
	q.place(j, a)
}
