package buffers

import "fmt"

// Room is the writable area of the first buffer, from the start of the payload to the end of the buffer; it may be a
// little longer than the class's size. For building what will be sent: write, then SetLen. nil for a zero, used-up or
// shared packet.
func (p Packet) Room() []byte {
	if !p.Valid() || !p.pool.exclusive(p.head) {
		return nil
	}
	start, end := p.pool.meta[p.head].off, p.pool.end(p.pool.front(p.head))
	return p.pool.mem[start:end:end]
}

// SetLen sets the payload length of the first buffer to n bytes of Room. Errors: ErrStale, ErrShared, ErrSize.
func (p Packet) SetLen(n int) error {
	if err := p.check(); err != nil {
		return err
	}
	if !p.pool.exclusive(p.head) {
		return ErrShared
	}
	m, f := &p.pool.meta[p.head], p.pool.front(p.head)
	if room := p.pool.end(f) - m.off; n < 0 || n > int(room) {
		return fmt.Errorf("buffers: SetLen: n is %d, must be 0 to %d: %w", n, room, ErrSize)
	}
	if m.next != none {
		p.pool.chains[p.head].bytes += uint32(n) - m.len
	}
	p.pool.setView(p.head, f, m.off, uint32(n))
	return nil
}

// Pull drops n bytes from the front of the packet, for partial reads. Buffers it empties stay with the packet until the
// release; Bytes moves on to the next one. Errors: ErrStale, ErrShared (the other holder would lose the bytes too),
// ErrSize.
func (p Packet) Pull(n int) error {
	if err := p.check(); err != nil {
		return err
	}
	if !p.pool.exclusive(p.head) {
		return ErrShared
	}
	length := p.pool.length(p.head)
	if n < 0 || n > length {
		return fmt.Errorf("buffers: Pull: n is %d, must be 0 to %d: %w", n, length, ErrSize)
	}
	p.pool.pull(p.head, uint32(n))
	return nil
}

// The head's off and len are those of the first unread byte, wherever it is, so that Bytes needs no second look. When
// Pull has moved on to a later buffer, that one is the front, with the same off and len; the buffers before it are
// empty.
//
//	head ──► b1 ──► b2 ──► b3        meta[head].off, len == meta[b2].off, len
//	read     read   ^front

// front is the buffer with the first unread byte.
func (p *Pool) front(head uint32) uint32 {
	if p.meta[head].flags&flagRead == 0 {
		return head
	}
	return p.chains[head].front
}

// pull drops the first n bytes of the packet at head, which has as many: the front moves on over the buffers that are read.
func (p *Pool) pull(head, n uint32) {
	m := &p.meta[head]
	f := p.front(head)
	if m.flags&flagRead == 0 {
		m.flags |= flagRead
		p.chains[head].front = head
	}
	if m.next != none {
		p.chains[head].bytes -= n
	}
	for n > m.len {
		n -= m.len
		f = p.advance(head, f)
	}
	p.setView(head, f, m.off+n, m.len-n)
	p.skipEmpty(head)
}

// skipEmpty moves the front to the first buffer that has something to read.
func (p *Pool) skipEmpty(head uint32) {
	f := p.front(head)
	for p.meta[head].len == 0 && p.meta[f].next != none {
		f = p.advance(head, f)
	}
}

// advance moves the front from f to the next buffer, leaving f empty.
func (p *Pool) advance(head, f uint32) uint32 {
	next := p.meta[f].next
	if f != head {
		p.meta[f].len = 0
	}
	n := &p.meta[next]
	p.chains[head].front = next
	p.setView(head, next, n.off, n.len)
	return next
}

// setView sets where the unread bytes of the front buffer are, in its own record and in the head's.
func (p *Pool) setView(head, front, off, n uint32) {
	p.meta[front].off, p.meta[front].len = off, n
	p.meta[head].off, p.meta[head].len = off, n
}

// emptyHead makes a head whose own bytes are all read an ordinary empty buffer: its record no longer repeats the front's off and len.
func (p *Pool) emptyHead(head uint32) {
	p.meta[head].off, p.meta[head].len = p.base(head), 0
}
