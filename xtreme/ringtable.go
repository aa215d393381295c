package xtreme

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/socketxtreme/socketxtreme/ring"
)

// ringTable finds a ring by its descriptor, without lock and allocation: two loads. Rings are added and removed under a lock.
//
//	pages ──► [ page 0 | page 1 | … ]      a page has the rings of 256 descriptors; the list of pages is replaced when it grows
type ringTable struct {
	pages atomic.Pointer[[]*ringPage]

	mu  sync.Mutex
	fds map[*ring.Ring]int // of the rings in the table, because Ring.FD of a closed ring is -1
}

const ringPageBits = 8 // a page is for 1<<8 descriptors

type ringPage [1 << ringPageBits]atomic.Pointer[ring.Ring]

// find returns the open ring with the descriptor fd, or nil. Any goroutine.
func (t *ringTable) find(fd int) *ring.Ring {
	pages := t.pages.Load()
	if pages == nil || uint(fd)>>ringPageBits >= uint(len(*pages)) {
		return nil
	}
	return (*pages)[fd>>ringPageBits][fd&(1<<ringPageBits-1)].Load()
}

// onRingChanged adds a ring that was opened, or removes one that was closed. Package ring calls it (ring.SetConfig.Changed).
func (t *ringTable) onRingChanged(r *ring.Ring, open bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !open {
		if fd, ok := t.fds[r]; ok {
			delete(t.fds, r)
			t.slot(fd).CompareAndSwap(r, nil) // unless a new ring has got the same descriptor
		}
		return
	}
	if fd := r.FD(); fd >= 0 {
		if t.fds == nil {
			t.fds = map[*ring.Ring]int{}
		}
		t.fds[r] = fd
		t.slot(fd).Store(r)
	}
}

// slot returns the table's entry for a descriptor, and makes its page if needed. The caller holds mu.
func (t *ringTable) slot(fd int) *atomic.Pointer[ring.Ring] {
	var pages []*ringPage
	if p := t.pages.Load(); p != nil {
		pages = *p
	}
	if n := fd>>ringPageBits + 1; n > len(pages) {
		pages = slices.Clone(pages)
		for len(pages) < n {
			pages = append(pages, new(ringPage))
		}
		t.pages.Store(&pages)
	}
	return &pages[fd>>ringPageBits][fd&(1<<ringPageBits-1)]
}
