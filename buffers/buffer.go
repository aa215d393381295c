package buffers

import "math"

// Buffer is a handle to one buffer of a packet. Its own references let a buffer outlive the packet it came in (VMA's
// socketxtreme_ref_vma_buff and socketxtreme_free_vma_buff): keep one buffer of a long chain and release the rest. For
// the owner goroutine. The zero Buffer is no buffer.
type Buffer struct {
	pool  *Pool
	index uint32
	gen   uint32
}

// Buffer is the handle of the packet's first buffer; after Pull, of the one with the first unread byte. The handle
// holds no reference until Buffer.Retain. Zero for a zero or used-up packet.
func (p Packet) Buffer() Buffer {
	if !p.Valid() {
		return Buffer{}
	}
	return p.pool.buffer(p.pool.front(p.head))
}

// Valid reports whether the handle is live: the buffer has not been free since the handle was made.
func (b Buffer) Valid() bool { return b.pool != nil && b.pool.meta[b.index].bufGen == b.gen }

// Bytes is the buffer's payload, without what Pull has dropped; nil for a zero or used-up handle.
func (b Buffer) Bytes() []byte {
	if !b.Valid() {
		return nil
	}
	m := &b.pool.meta[b.index]
	if b.pool.front(b.index) != b.index {
		return b.pool.mem[m.off:m.off:m.off]
	}
	return b.pool.payload(m)
}

// Next is the buffer after this one in the packet; false at the end, and once the packet is gone.
func (b Buffer) Next() (Buffer, bool) {
	if !b.Valid() {
		return Buffer{}, false
	}
	next := b.pool.meta[b.index].next
	if next == none {
		return Buffer{}, false
	}
	return b.pool.buffer(next), true
}

// Retain takes a reference to this buffer alone. Errors: ErrStale, ErrOverflow (65,535 references).
func (b Buffer) Retain() error {
	if b.pool == nil {
		return ErrNone
	}
	if !b.Valid() {
		b.pool.stats.StaleUses++
		return ErrStale
	}
	m := &b.pool.meta[b.index]
	if m.bufRefs == math.MaxUint16 {
		return ErrOverflow
	}
	m.bufRefs++
	if d := b.pool.debug.Load(); d != nil {
		d.held(d.buffers, b.index, b.gen)
	}
	return nil
}

// Release gives up a reference taken by Retain. It cannot take away the packet's own: without a Retain it is a stale
// release, counted, ErrStale. Unlike in VMA the buffer is free at once when the packet is gone too.
func (b Buffer) Release() error {
	if b.pool == nil {
		return ErrNone
	}
	p, m := b.pool, &b.pool.meta[b.index]
	d := p.debug.Load()
	if m.bufGen != b.gen || m.bufRefs == 0 {
		p.stats.StaleReleases++
		if d != nil {
			panic(d.report("release of a stale buffer", d.buffers, b.index, b.gen))
		}
		return ErrStale
	}
	m.bufRefs--
	if m.bufRefs > 0 {
		return nil
	}
	if d != nil {
		d.ended(d.buffers, b.index, b.gen, "released")
	}
	if m.state == stateRetained {
		p.freeBuffer(b.index, m)
	}
	return nil
}

func (p *Pool) buffer(i uint32) Buffer { return Buffer{pool: p, index: i, gen: p.meta[i].bufGen} }
