package buffers

import "iter"

// Packet is a handle to a chain of buffers: a received datagram or piece of stream, or something to be sent. It is a
// value of 16 bytes that may be copied freely; copies share their references. It belongs to the pool's owner goroutine;
// others use Lent. The zero Packet is no packet.
//
// A handle is used up by the Release of the last reference, and by Lend, Transmit and Append (as tail). After that its
// generation no longer matches, reading gives nothing and changing gives ErrStale. Generations have 32 bits: a handle
// kept through 2³² reuses of its buffer would be taken for live.
type Packet struct {
	pool *Pool
	head uint32
	gen  uint32
}

// IsZero reports whether p is the zero Packet.
func (p Packet) IsZero() bool { return p.pool == nil }

// Valid reports whether p is a live handle: not zero and not used up.
func (p Packet) Valid() bool { return p.pool != nil && p.pool.meta[p.head].gen == p.gen }

// Bytes is the payload of the first buffer: all of it for most packets. After Pull it starts at the first unread byte,
// and is empty only when nothing is left. The slice is valid until the reference is given up; appending to it copies.
// nil for a zero or used-up handle.
func (p Packet) Bytes() []byte {
	if p.pool == nil {
		return nil
	}
	m := &p.pool.meta[p.head]
	if m.gen != p.gen {
		return nil
	}
	end := m.off + m.len
	return p.pool.mem[m.off:end:end]
}

// Len is the payload of the whole chain in bytes; 0 for a zero or used-up handle.
func (p Packet) Len() int {
	if !p.Valid() {
		return 0
	}
	return p.pool.length(p.head)
}

// NumBuffers is the number of buffers in the chain, those already read by Pull included; 0 for a zero or used-up handle.
func (p Packet) NumBuffers() int {
	if !p.Valid() {
		return 0
	}
	if p.pool.meta[p.head].next == none {
		return 1
	}
	return int(p.pool.chains[p.head].count)
}

// Segments yields the payload buffer by buffer, leaving out empty ones. It stops when the packet is released in the
// loop. Ranging over it does not allocate.
func (p Packet) Segments() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) { p.each(yield) }
}

// each is the loop of Segments; a function of its own, so that ranging over Segments allocates no closure.
func (p Packet) each(yield func([]byte) bool) {
	if !p.Valid() {
		return
	}
	for s := p.pool.first(p.head); ; s = p.pool.after(s) {
		if len(s.b) > 0 && !yield(s.b) {
			return
		}
		if s.next == none || !p.Valid() {
			return
		}
	}
}

// CopyTo copies the payload of the whole chain to dst and returns the bytes copied: the smaller of len(dst) and Len.
func (p Packet) CopyTo(dst []byte) int {
	if !p.Valid() {
		return 0
	}
	return p.pool.copyTo(p.head, dst)
}

// length, first, after and copyTo serve Packet and Lent, whose handles have been checked.

// length is the unread payload of the whole chain, in bytes.
func (p *Pool) length(head uint32) int {
	if m := &p.meta[head]; m.next == none {
		return int(m.len)
	}
	return int(p.chains[head].bytes)
}

// segment is a place in the walk over a packet's payload.
type segment struct {
	b    []byte
	next uint32
}

// first begins a walk over the payload, at the first unread byte.
func (p *Pool) first(head uint32) segment {
	m := &p.meta[head]
	return segment{p.payload(m), p.meta[p.front(head)].next}
}

// after is the next step of the walk; s.next must not be none.
func (p *Pool) after(s segment) segment {
	m := &p.meta[s.next]
	return segment{p.payload(m), m.next}
}

// payload is the bytes that a record points to; appending to the slice copies.
func (p *Pool) payload(m *meta) []byte {
	end := m.off + m.len
	return p.mem[m.off:end:end]
}

// copyTo copies the unread payload of the chain to dst, as much as fits, and returns the number of bytes.
func (p *Pool) copyTo(head uint32, dst []byte) int {
	s := p.first(head)
	n := copy(dst, s.b)
	for s.next != none && n < len(dst) {
		s = p.after(s)
		n += copy(dst[n:], s.b)
	}
	return n
}

// check returns the error for a handle that is zero or used up.
func (p Packet) check() error {
	if p.pool == nil {
		return ErrNone
	}
	if p.pool.meta[p.head].gen != p.gen {
		p.pool.stats.StaleUses++
		return ErrStale
	}
	return nil
}
