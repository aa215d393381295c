package buffers

// Data that a stream has queued keeps its buffers until the peer has acknowledged it. Receiving must find buffers meanwhile, or no
// acknowledgement arrives, and the buffers never return:
//
//	sending     has the reserve (SetReserve) for itself, beside the last free buffers: what is queued counts as a part of it, and Take leaves
//	            the rest of it free
//	receiving   must find the least buffers, on whichever queue of a card, before more than the reserve is queued
//	copies      of what was received, such as segments that another ring hands over, want free buffers, not those that lie ready
//	segments    that leave at once, acknowledgements among them, too: a peer acknowledges nothing while it waits for an acknowledgement itself
//
// So the last free buffers (KeepForSegments) are taken neither for a card, nor for what is queued, nor by Alloc:
//
//	0          least        2 least                                 free
//	├─ segments ┼─ copies too ─┼─ cards, queued data and Alloc too ──┤

const (
	least      = 64 // buffers that queued data leaves to receiving, to copies and to segments
	leastShare = 16 // or, of a small pool, one in so many
)

// least is that of class c.
func (p *Pool) least(c Class) int { return min(least, p.layout.count(c)/leastShare) }

// Queueable is how many buffers of class c may be taken for data that stays queued until its peer acknowledges it.
func (p *DriverPool) Queueable(c Class) int {
	f := &p.free[c]
	return min(f.n-f.lastFree, max(f.kept-f.queued, int(p.forAnyQueue(c))-p.least(c)))
}

// IsShort reports that receiving may find no buffer of some class: fewer are left to it than queued data leaves.
func (p *DriverPool) IsShort() bool {
	for c := Small; c < NumClasses; c++ {
		if p.layout.count(c) > 0 && int(p.forAnyQueue(c)) <= p.least(c) {
			return true
		}
	}
	return false
}

// TakeForCopy is Take for what is copied from elsewhere.
func (p *DriverPool) TakeForCopy(c Class) (uint32, bool) {
	i, ok := p.take(c, p.keptFromCopies(c))
	if !ok {
		p.stats.Exhausted++
	}
	return i, ok
}

// Copyable is how many buffers of class c TakeForCopy can give.
func (p *DriverPool) Copyable(c Class) int { return p.free[c].n - p.keptFromCopies(c) }

func (p *Pool) keptFromCopies(c Class) int { return p.free[c].reserve - p.free[c].lastFree/2 }

// KeepForSegments keeps the last free buffers of class c for AllocTransmit, and half of them for TakeForCopy too: at most half of those that
// the reserve leaves. A driver whose transport queues data calls it once, before it shows the pool to others.
func (p *DriverPool) KeepForSegments(c Class) {
	f := &p.free[c]
	f.lastFree = min(2*p.least(c), (p.layout.count(c)-f.kept)/2)
	f.updateReserve()
}

// AddQueued notes that a packet of AllocTransmit stays queued: the reserve that receiving leaves free is one buffer less. RemoveQueued ends it,
// before the packet is freed.
func (p *DriverPool) AddQueued(pk Packet) {
	f := &p.free[p.classOf(pk.head)]
	f.queued++
	f.updateReserve()
}

// RemoveQueued undoes AddQueued.
func (p *DriverPool) RemoveQueued(pk Packet) {
	f := &p.free[p.classOf(pk.head)]
	f.queued--
	f.updateReserve()
}

func (f *freeList) updateReserve() { f.reserve = max(f.kept-f.queued, 0) + f.lastFree }
