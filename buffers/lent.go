package buffers

import "iter"

// Lent is a handle to a packet that its owner gave to other goroutines: any goroutine may read it, and must release it
// once. The bytes are shared and must not be written. The zero Lent is no packet. It is a type of its own so that the
// owner's packets need no atomic operations (an owner's release costs about 5 ns, one with compare-and-swap 20 ns).
//
// Hand it over through something that orders memory (a channel, a mutex). A loan has a ticket, and the ticket moves when
// the last reference is back: later use of a copy reads nothing and returns ErrStale.
type Lent struct {
	pool   *Pool
	head   uint32
	ticket uint32
}

// A loan is one atomic word for each packet. While the owner has references of its own too, the share bit stands for all of them: the
// loan cannot end while the owner reads, and the owner's own count stays plain. The loan ends when the low half is 0.
//
//	63          32  31   30        0
//	|   ticket   |share| references |
func loanWord(ticket, low uint32) uint64 { return uint64(ticket)<<32 | uint64(low) }

const (
	ownerShare = 1 << 31
	lentMask   = ownerShare - 1
)

// Lend turns one of the owner's references into a Lent, which any goroutine may use and must release. With the last reference the handle p is
// used up. With more (Retain before Lend) p stays valid for the others, and may be lent again; while both sides
// have references, calls that change the packet fail with ErrShared. Owner goroutine. Errors: ErrStale, ErrState (the ring is sending it).
func (p Packet) Lend() (Lent, error) {
	if err := p.check(); err != nil {
		return Lent{}, err
	}
	pool, m := p.pool, &p.pool.meta[p.head]
	if m.state != stateHeld && m.state != stateReceived {
		return Lent{}, ErrState
	}
	running := pool.onLoan(p.head)
	ticket := pool.ticket(p.head)
	if !running {
		m.flags |= flagLoan // only here: while the loan runs, other goroutines read the flags
	}
	switch word := &pool.loans[p.head]; {
	case !running && m.refs == 1:
		word.Store(loanWord(ticket, 1))
	case !running:
		word.Store(loanWord(ticket, ownerShare|1))
	case m.refs > 1:
		word.Add(1)
	default:
		word.Add(^uint64(ownerShare - 2)) // + 1 - ownerShare: the share becomes the Lent's reference
	}
	m.refs--
	pool.stats.Loans++
	d := pool.debug.Load()
	if d != nil {
		d.held(d.loans, p.head, ticket)
	}
	if m.refs == 0 {
		m.gen++
		pool.setState(p.head, stateLent)
		if d != nil {
			d.ended(d.packets, p.head, p.gen, "lent")
		}
	}
	return Lent{pool: pool, head: p.head, ticket: ticket}, nil
}

// Valid reports whether the loan still has a reference. Any goroutine.
func (l Lent) Valid() bool {
	if l.pool == nil {
		return false
	}
	word := l.pool.loans[l.head].Load()
	return uint32(word>>32) == l.ticket && word&lentMask != 0
}

// Bytes is the payload of the first buffer, as Packet.Bytes. Any goroutine that holds a reference.
func (l Lent) Bytes() []byte {
	if !l.Valid() {
		return nil
	}
	return l.pool.payload(&l.pool.meta[l.head])
}

// Len is the payload of the whole chain in bytes, as Packet.Len. Any goroutine that holds a reference.
func (l Lent) Len() int {
	if !l.Valid() {
		return 0
	}
	return l.pool.length(l.head)
}

// Segments yields the payload buffer by buffer, as Packet.Segments. Any goroutine that holds a reference.
func (l Lent) Segments() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) { l.each(yield) }
}

// each is the loop of Segments; a function of its own, so that ranging over Segments allocates no closure.
func (l Lent) each(yield func([]byte) bool) {
	if !l.Valid() {
		return
	}
	for s := l.pool.first(l.head); ; s = l.pool.after(s) {
		if len(s.b) > 0 && !yield(s.b) {
			return
		}
		if s.next == none || !l.Valid() { // yield may have released the loan
			return
		}
	}
}

// CopyTo copies the payload of the whole chain to dst, as Packet.CopyTo. Any goroutine that holds a reference.
func (l Lent) CopyTo(dst []byte) int {
	if !l.Valid() {
		return 0
	}
	return l.pool.copyTo(l.head, dst)
}

// Retain takes one more reference, to be released by any goroutine. Errors: ErrStale, ErrOverflow (2³⁰
// references).
func (l Lent) Retain() error {
	if l.pool == nil {
		return ErrNone
	}
	word := &l.pool.loans[l.head]
	for {
		old := word.Load()
		if uint32(old>>32) != l.ticket || old&lentMask == 0 {
			return ErrStale
		}
		if old&lentMask > lentMask/2 { // the rest is room for the owner's Lend, which adds without looking
			return ErrOverflow
		}
		if word.CompareAndSwap(old, old+1) {
			return nil
		}
	}
}

// Release gives up one reference. The last one puts the packet on the return stack, from which the owner takes it back
// with Reclaim, and calls the return callback. Any goroutine; it never blocks. A second Release of the last reference
// counts and returns ErrStale (or panics, see Pool.SetDebug).
func (l Lent) Release() error {
	p := l.pool
	if p == nil {
		return ErrNone
	}
	d := p.debug.Load()
	if d != nil && l.Valid() {
		// Before the loan can end: afterwards the owner may already be writing the next record.
		d.ended(d.loans, l.head, l.ticket, "released")
	}
	last, ok := p.dropLoan(l.head, l.ticket)
	if !ok {
		p.stale.Add(1)
		if d != nil {
			panic(d.report("release of a stale lent packet", d.loans, l.head, l.ticket))
		}
		return ErrStale
	}
	if last {
		p.pushReturned(l.head)
		if f := p.returnCallback.Load(); f != nil {
			(*f)()
		}
	}
	return nil
}

// SetReturnCallback sets f to be called, on the releasing goroutine, each time a lent packet has come back; nil for none. A
// sleeping ring wakes its owner with it, and the owner then calls Reclaim. f must not block. Any goroutine.
func (p *DriverPool) SetReturnCallback(f func()) {
	if f == nil {
		p.returnCallback.Store(nil)
		return
	}
	p.returnCallback.Store(&f)
}

// Reclaim takes back what other goroutines have released and returns the number of buffers. When there is nothing it
// costs one atomic load. Owner goroutine, once per poll.
func (p *Pool) Reclaim() int {
	if p.top.Load() == 0 {
		return 0
	}
	return p.reclaim()
}

// reclaim is apart so that the usual answer is inlined.
func (p *Pool) reclaim() int {
	n := 0
	for t := p.top.Swap(0); t != 0; {
		head := t - 1
		t = p.links[head] // before freeChain: the buffer may be lent again at once
		n += p.freeChain(head)
	}
	p.stats.Returned += uint64(n)
	return n
}

// ticket is the number of the running loan, or of the next one.
func (p *Pool) ticket(head uint32) uint32 { return uint32(p.loans[head].Load() >> 32) }

// onLoan reports whether other goroutines have references. A loan of which only the owner's share is left ends here: its ticket moves, so
// that copies of its Lent are stale.
func (p *Pool) onLoan(head uint32) bool {
	m := &p.meta[head]
	if m.flags&flagLoan == 0 {
		return false
	}
	t := p.ticket(head)
	if !p.loans[head].CompareAndSwap(loanWord(t, ownerShare), loanWord(t+1, 0)) {
		return true
	}
	m.flags &^= flagLoan
	return false
}

// dropLoan gives up one lent reference. last reports that the loan ended with it; ok is false when no reference with this ticket is left.
func (p *Pool) dropLoan(head, ticket uint32) (last, ok bool) {
	word := &p.loans[head]
	for {
		old := word.Load()
		if uint32(old>>32) != ticket || old&lentMask == 0 {
			return false, false
		}
		next := old - 1
		if uint32(next) == 0 {
			next = loanWord(ticket+1, 0)
		}
		if word.CompareAndSwap(old, next) {
			return uint32(next) == 0, true
		}
	}
}

// dropShare gives up the owner's share, when the owner has released its last reference, and reports whether the loan ended with it.
func (p *Pool) dropShare(head uint32) (last bool) {
	word := &p.loans[head]
	for {
		old := word.Load()
		next := old &^ ownerShare
		if uint32(next) == 0 {
			next = loanWord(uint32(old>>32)+1, 0)
		}
		if word.CompareAndSwap(old, next) {
			return uint32(next) == 0
		}
	}
}

// pushReturned puts head on the return stack. Its users only push; the owner takes all at once, so a head that left and
// came back between load and swap (the ABA problem) does no harm: the link written is still the right one.
func (p *Pool) pushReturned(head uint32) {
	for {
		top := p.top.Load()
		p.links[head] = top
		if p.top.CompareAndSwap(top, head+1) {
			return
		}
	}
}
