package store

import "container/heap"

// dated is a heap of the entries that expire, the next one first.
type dated []*Entry

// Len is part of heap.Interface.
func (d dated) Len() int { return len(d) }

// Less is part of heap.Interface.
func (d dated) Less(i, j int) bool { return d[i].expires < d[j].expires }

// Swap is part of heap.Interface.
func (d dated) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].date, d[j].date = i, j
}

// Push is part of heap.Interface.
func (d *dated) Push(x any) {
	e := x.(*Entry)
	e.date = len(*d)
	*d = append(*d, e)
}

// Pop is part of heap.Interface.
func (d *dated) Pop() any {
	last := len(*d) - 1
	e := (*d)[last]
	e.date = -1
	(*d)[last] = nil
	*d = (*d)[:last]
	return e
}

// Expire sets when an entry is gone, in milliseconds since 1970 and above 0.
func (db *DB) Expire(e *Entry, at int64) {
	e.expires = at
	if e.date < 0 {
		heap.Push(&db.dated, e)
	} else {
		heap.Fix(&db.dated, e.date)
	}
}

// Persist makes an entry stay; it says whether it was to expire.
func (db *DB) Persist(e *Entry) bool {
	if e.date < 0 {
		return false
	}
	heap.Remove(&db.dated, e.date)
	e.expires = 0
	return true
}

// Sweep removes at most most entries that have expired, the oldest first, and returns how many.
func (db *DB) Sweep(most int) (n int) {
	for n < most && len(db.dated) > 0 && db.expired(db.dated[0]) {
		db.remove(db.dated[0])
		db.Gone++
		n++
	}
	return n
}
