package buffers

// Data that a stream has queued keeps its buffers until the peer has acknowledged it. Receiving must find buffers meanwhile, or no
// acknowledgement arrives, and the buffers never return:
//
//	sending     has the reserve (SetReserve) for itself: what is queued counts as a part of it, and Take leaves the rest of it free
//	receiving   must find leastToReceive buffers, on whichever queue of a card, before more than the reserve is queued

const (
	leastToReceive      = 64 // buffers that queued data leaves to receiving
	leastToReceiveShare = 16 // or, of a small pool, one in so many
)

// MayQueue reports whether a buffer of class c may be taken for data that stays queued until its peer acknowledges it.
func (p *DriverPool) MayQueue(c Class) bool {
	f := &p.free[c]
	return f.queued < f.kept || p.forAnyQueue(c) > int32(min(leastToReceive, p.layout.count(c)/leastToReceiveShare))
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

func (f *freeList) updateReserve() { f.reserve = max(f.kept-f.queued, 0) }
