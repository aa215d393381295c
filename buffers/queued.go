package buffers

// Data that a stream has queued keeps its buffers until the peer has acknowledged it. Receiving must find buffers meanwhile, or no
// acknowledgement arrives, and the buffers never return:
//
//	sending     has the reserve (SetReserve) for itself: what is queued counts as a part of it, and Take leaves the rest of it free
//	receiving   must find the least buffers, on whichever queue of a card, before more than the reserve is queued
//	segments    that leave at once, acknowledgements among them, have the last free buffers (KeepForSegments): neither receiving, nor what is
//	            queued, nor Alloc takes those. A peer acknowledges nothing while it waits for an acknowledgement itself.

const (
	least      = 64 // buffers that queued data leaves to receiving, and to segments
	leastShare = 16 // or, of a small pool, one in so many
)

// least is that of class c.
func (p *Pool) least(c Class) int { return min(least, p.layout.count(c)/leastShare) }

// Queueable is how many buffers of class c may be taken for data that stays queued until its peer acknowledges it.
func (p *DriverPool) Queueable(c Class) int {
	f := &p.free[c]
	return min(f.n-f.forSegments, max(f.kept-f.queued, int(p.forAnyQueue(c))-p.least(c)))
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

// Takeable is how many buffers of class c Take can give.
func (p *DriverPool) Takeable(c Class) int { return p.free[c].n - p.free[c].reserve }

// KeepForSegments keeps the last free buffers of class c for AllocTransmit alone. A transport that queues data calls it once, when it is made.
func (p *DriverPool) KeepForSegments(c Class) {
	f := &p.free[c]
	f.forSegments = p.least(c)
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

func (f *freeList) updateReserve() { f.reserve = max(f.kept-f.queued, f.forSegments) }
