package feed

// park keeps packets that came too early, until the messages before them were delivered or given up.
//
//	seq & mask →  |  0 |  3 |  3 |  0 |  7 |  …      which slot has the message, plus one; 0: none
//	slots      →  3: packet 101…102    7: packet 104…
//
// The first packet that brings a message sets its word. A slot is free when all its messages were taken.
type park[R any] struct {
	ring  []uint32
	mask  uint64
	slots []slot[R]
	free  []uint32
	slab  []byte // with CopyBytes: memory for the copies, a piece for each slot
	piece int    // length of such a piece; 0: nothing is copied
}

// slot is a parked packet.
type slot[R any] struct {
	seg  Segment[R]
	end  uint64 // one more than its last message
	left uint32 // how many of its messages are still in the ring
}

// newPark makes a park for window messages in slots packets, each copied into at most piece bytes (0: not copied).
func newPark[R any](window, slots, piece int) park[R] {
	p := park[R]{ring: make([]uint32, window), mask: uint64(window - 1), slots: make([]slot[R], slots),
		free: make([]uint32, slots), slab: make([]byte, slots*piece), piece: piece}
	for i := range p.free {
		p.free[i] = uint32(slots - 1 - i)
	}
	return p
}

// used returns how many packets are parked.
func (p *park[R]) used() int { return len(p.slots) - len(p.free) }

// at returns the slot that has a message, plus one; 0 if the message is not parked.
func (p *park[R]) at(seq uint64) uint32 { return p.ring[seq&p.mask] }

// add parks the messages [from,end) of a packet that are not parked yet and returns how many there are; with 0 the packet is not kept. There
// must be a free slot.
func (p *park[R]) add(s *Segment[R], from, end uint64) uint32 {
	id := p.free[len(p.free)-1]
	var n uint32
	for q := from; q < end; q++ {
		if w := &p.ring[q&p.mask]; *w == 0 {
			*w = id + 1
			n++
		}
	}
	if n == 0 {
		return 0
	}
	p.free = p.free[:len(p.free)-1]
	t := &p.slots[id]
	t.seg, t.end, t.left = *s, end, n
	if p.piece > 0 {
		b := p.slab[int(id)*p.piece:][:len(s.Payload):p.piece]
		copy(b, s.Payload)
		var none R
		t.seg.Payload, t.seg.Ref = b, none
	}
	return n
}

// take removes the messages of one packet that follow each other from seq on. It returns the packet's slot, how many messages they are, and
// whether the slot is empty now. The slot's content stays readable until the next add.
func (p *park[R]) take(seq uint64) (t *slot[R], run uint32, last bool) {
	id := p.at(seq)
	t = &p.slots[id-1]
	for q := seq; q < t.end && p.ring[q&p.mask] == id; q++ {
		p.ring[q&p.mask] = 0
		run++
	}
	t.left -= run
	if t.left == 0 {
		p.free = append(p.free, id-1)
		return t, run, true
	}
	return t, run, false
}

// first returns the first parked message in [from,to), or to if there is none. All parked messages lie within one window that begins with from.
func (p *park[R]) first(from, to uint64) uint64 {
	if p.used() == 0 {
		return to
	}
	end := to
	if to-from > uint64(len(p.ring)) {
		end = from + uint64(len(p.ring))
	}
	for q := from; q < end; q++ {
		if p.ring[q&p.mask] != 0 {
			return q
		}
	}
	return to
}
