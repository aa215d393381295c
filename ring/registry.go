package ring

import (
	"sync"
	"sync/atomic"
	"weak"
)

// Records of sockets hold numbers in the place of pointers, so that the garbage collector has nothing to look at in them. A number of a set
// or of a ring is good for ever: none is given twice. After Close it leads to closedSet or closedRing, which refuse everything.

var (
	sets  registry[Set]
	rings registry[Ring]
)

// closedSet and closedRing stand for those that were closed: the registries keep nothing of them alive.
var (
	closedSet  = &Set{number: 0, actives: []*activeState{{}}, transports: []transportEntry{{}}, settings: []*settings{{}}}
	closedRing = &Ring{set: closedSet, stats: &RingPage{}, epoch: new(uint64)}
)

func init() {
	closedSet.closed.Store(true)
	closedSet.published.Store(&[]*Ring{})
	closedRing.owner.Store(closedOwner)
	closedRing.sink.ring = closedRing
}

const (
	firstNumbers = 256
	blockNumbers = 1024
)

// registry finds what has a number. The first ones, which are all in most programs, need one load. Any goroutine.
type registry[T any] struct {
	first [firstNumbers]numbered[T]
	later atomic.Pointer[[]*[blockNumbers]numbered[T]] // replaced when a block is added, not changed
	mu    sync.Mutex                                   // of add
	last  uint32
}

// numbered is an entry. present is replaced by closedSet or closedRing when the value is closed; was leads to the value itself for as long as
// the application has a pointer to it.
type numbered[T any] struct {
	present atomic.Pointer[T]
	was     weak.Pointer[T]
}

// at is the value with the number; nil for 0.
func (x *registry[T]) at(n uint32) *T {
	if n < firstNumbers {
		return x.first[n].present.Load()
	}
	return x.atLater(n)
}

// atLater is apart so that the usual answer is inlined.
//
//go:noinline
func (x *registry[T]) atLater(n uint32) *T { return x.entry(n).present.Load() }

// entry is the entry of a number that add has returned.
func (x *registry[T]) entry(n uint32) *numbered[T] {
	if n < firstNumbers {
		return &x.first[n]
	}
	n -= firstNumbers
	return &(*x.later.Load())[n/blockNumbers][n%blockNumbers]
}

// add gives v a number. A new block is published in a copy of the list of blocks, because readers take no lock.
func (x *registry[T]) add(v *T) uint32 {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last++
	if n := x.last; n >= firstNumbers && (n-firstNumbers)%blockNumbers == 0 { // the first number of a block that is not there yet
		var blocks []*[blockNumbers]numbered[T]
		if old := x.later.Load(); old != nil {
			blocks = *old
		}
		blocks = append(blocks[:len(blocks):len(blocks)], new([blockNumbers]numbered[T]))
		x.later.Store(&blocks)
	}
	e := x.entry(x.last)
	e.was = weak.Make(v)
	e.present.Store(v)
	return x.last
}

// close replaces the value with the number by closed.
func (x *registry[T]) close(n uint32, closed *T) { x.entry(n).present.Store(closed) }
