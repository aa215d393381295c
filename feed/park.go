package feed

// park keeps packets that came too early.
//
//	seq & mask →  |  0 |  3 |  3 |  0 |  7 |  …      which slot has the message, plus one; 0: nobody
//	slots      →  3: packet 101…102    7: packet 104…
//
// The line that brings a message first sets its word; a slot is free when none of its messages is wanted any more.
type park[R any] struct {
	ring  []uint32
	mask  uint64
	slots []slot[R]
	free  []uint32
	slab  []byte // with CopyBytes: a piece for each slot
	piece int
}

type slot[R any] struct {
	seg  Segment[R]
	end  uint64
	left uint32 // messages of it still in the ring
}

func newPark[R any](window, slots, piece int) park[R] {
	p := park[R]{ring: make([]uint32, window), mask: uint64(window - 1), slots: make([]slot[R], slots),
		free: make([]uint32, slots), slab: make([]byte, slots*piece), piece: piece}
	for i := range p.free {
		p.free[i] = uint32(slots - 1 - i)
	}
	return p
}

func (p *park[R]) used() int { return len(p.slots) - len(p.free) }

// at is the slot that has the message, plus one.
func (p *park[R]) at(seq uint64) uint32 { return p.ring[seq&p.mask] }

// put parks the messages from on that nobody has yet and reports how many they are; 0: nothing was kept.
func (p *park[R]) put(s *Segment[R], from, end uint64) uint32 {
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

// take removes the run of one slot's messages that begins with seq, and tells its length and whether the slot is empty
// now. The slot's content stays readable until the next put.
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

// first finds the first message parked in [from,to), or to. All that is parked lies within one window from from on.
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
