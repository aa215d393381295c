package uring

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
)

// group is the provided buffers of one size class: pool buffers that the kernel may fill. Each has an id while it is offered; index maps
// ids to the pool's numbers, which do not fit the kernel's 16 bits.
type group struct {
	ring      *sys.ProvidedBuffers
	class     buffers.Class
	count     int      // buffers of the class that receiving may take
	limit     int      // the most that offerMax may become, see updateLimits
	offerMax  int      // offered at a time: few at first, twice as many whenever the kernel has used up nearly all
	index     []uint32 // by id: the buffer that is offered under it, or noBuffer
	ids       []uint16 // under which no buffer is offered
	poolEmpty bool     // the pool had no buffer when fill took from it last
	freed     uint64   // DriverPool.Freed at that time: while it is the same, the pool has none
}

const noBuffer = ^uint32(0)

// maxOffered is how many buffers of each class a ring offers at most.
var maxOffered = [buffers.NumClasses]int{buffers.Small: 1024, buffers.Large: 64}

// firstOffered is half of what a ring offers at first: the first refill finds none offered, and doubles it. The kernel fills all that it is
// offered in turn, so each is memory that is touched, and a place in the caches.
var firstOffered = [buffers.NumClasses]int{buffers.Small: 128, buffers.Large: 16}

// share is what the drivers on one pool know of each other: a driver offers the kernel no more than a quarter of what receiving may take
// of a class (DriverPool.ReceiveShare) divided by their number, so that idle rings do not hold buffers that busy rings and senders need.
type share struct{ drivers atomic.Int32 }

var shares = struct {
	sync.Mutex
	of map[*buffers.DriverPool]*share
}{of: map[*buffers.DriverPool]*share{}}

// joinShare counts one more driver on a pool.
func joinShare(p *buffers.DriverPool) *share {
	shares.Lock()
	defer shares.Unlock()
	s := shares.of[p]
	if s == nil {
		s = &share{}
		shares.of[p] = s
	}
	s.drivers.Add(1)
	return s
}

// leaveShare counts one less, when a driver is closed.
func leaveShare(p *buffers.DriverPool) {
	shares.Lock()
	defer shares.Unlock()
	if s := shares.of[p]; s != nil && s.drivers.Add(-1) == 0 {
		delete(shares.of, p)
	}
}

// openGroup makes the group of a class when the first socket needs it.
func (d *Driver) openGroup(c buffers.Class) error {
	if d.groups[c] != nil {
		return nil
	}
	count := d.pool.ReceiveShare(c)
	if count == 0 {
		return fmt.Errorf("uring: attach: the pool has no %v buffers: %w", c, unix.ENOBUFS)
	}
	entries := 1 << bits.Len(uint(min(maxOffered[c], max(count/4, 1))-1)) // rounded up to a power of two
	ring, err := d.u.RegisterBuffers(uint16(c), entries)
	if err != nil {
		return fmt.Errorf("uring: attach: %d provided %v buffers: %w", entries, c, err)
	}
	g := &group{ring: ring, class: c, count: count, offerMax: firstOffered[c], index: make([]uint32, entries), ids: make([]uint16, entries)}
	for i := range entries {
		g.index[i], g.ids[i] = noBuffer, uint16(entries-1-i)
	}
	d.groups[c] = g
	d.updateLimits()
	return nil
}

// out is how many buffers the kernel has, those in completions not yet read included.
func (g *group) out() int { return len(g.index) - len(g.ids) }

// takeByID is the pool's buffer with an id that a completion names; the id is free again.
func (g *group) takeByID(id uint16) uint32 {
	i := g.index[id]
	g.index[id] = noBuffer
	g.ids = append(g.ids, id) // never beyond its first length
	return i
}

// refill tops up the groups that are half empty. It comes before each enter: only there the kernel takes buffers.
func (d *Driver) refill() {
	if d.share.drivers.Load() != d.sharers {
		d.updateLimits()
	}
	for _, g := range d.groups {
		if g != nil && g.out() <= g.offerMax/2 {
			if g.out() < g.offerMax/8 {
				g.grow()
			}
			d.fill(g)
		}
	}
}

// updateLimits divides a quarter of each class's receive share by the number of drivers on the pool now: more this driver must not offer.
func (d *Driver) updateLimits() {
	d.sharers = d.share.drivers.Load()
	for _, g := range d.groups {
		if g != nil {
			g.limit = min(len(g.index), max(g.count/4/int(d.sharers), 1))
			g.offerMax = min(g.offerMax, g.limit)
		}
	}
}

// grow offers twice as many from now on.
func (g *group) grow() { g.offerMax = min(2*g.offerMax, g.limit) }

// fill offers the kernel buffers, as far as the pool has some. One store of the ring's tail for all. It does nothing while the pool has freed no
// buffer since it was last empty. offerMax is at most len(index), so ids has one for each.
func (d *Driver) fill(g *group) {
	if g.poolEmpty && d.pool.Freed() == g.freed {
		return
	}
	g.poolEmpty = false
	added := false
	for n := g.offerMax - g.out(); n > 0; n-- {
		i, ok := d.pool.Take(g.class)
		if !ok {
			g.poolEmpty, g.freed = true, d.pool.Freed()
			break
		}
		last := len(g.ids) - 1
		id := g.ids[last]
		g.ids = g.ids[:last]
		g.index[id] = i
		g.ring.Add(d.pool.Memory(i), id)
		added = true
	}
	if added {
		g.ring.Commit()
	}
}

// replenish offers more buffers of a class, after the kernel has found none. It reports whether the kernel has some now, so that the operation
// can be armed again.
func (d *Driver) replenish(c buffers.Class) bool {
	g := d.groups[c]
	g.grow()
	d.fill(g)
	return g.out() > 0
}

// close unregisters the group and returns the buffers that the kernel had to the pool. No operation may be armed any more.
func (g *group) close(u *sys.Uring, p *buffers.DriverPool) error {
	err := u.UnregisterBuffers(g.ring)
	for _, i := range g.index {
		if i != noBuffer {
			p.Return(i)
		}
	}
	return err
}
