package buffers

import "math"

// Retain takes one more reference: one more Release is needed before the buffers are free. Errors: ErrStale,
// ErrOverflow (65,535 references).
func (p Packet) Retain() error {
	if err := p.check(); err != nil {
		return err
	}
	m := &p.pool.meta[p.head]
	if m.refs == math.MaxUint16 {
		return ErrOverflow
	}
	m.refs++
	if d := p.pool.debug.Load(); d != nil {
		d.held(d.packets, p.head, p.gen)
	}
	return nil
}

// Release gives up one reference. With the last one the handle is used up, and each buffer of the chain that
// Buffer.Retain does not keep is free. Legal after the socket and its account were closed. A second Release of the last
// reference does nothing but count and return ErrStale (or panic, see SetDebug); one that another reference covers
// cannot be told from a proper one.
func (p Packet) Release() error {
	pool := p.pool
	if pool == nil {
		return ErrNone
	}
	m := &pool.meta[p.head]
	if m.gen != p.gen {
		return pool.countStaleRelease(p)
	}
	if m.refs != 1 || m.next != none || m.bufRefs != 0 || m.flags != 0 || pool.debug.Load() != nil {
		pool.release(p)
		return nil
	}
	m.refs = 0
	m.gen++
	// freeBuffer, written out for a buffer that only has an account: without the call it takes 4 ns, not 5.
	c := pool.classOf(p.head)
	a := &pool.accounts[m.account]
	a.used[c]--
	if a.asks || a.closed {
		pool.creditOrFreeAccount(p.head, m.account, a)
	}
	m.account = 0
	m.bufGen++
	m.state = stateFree
	pool.avail[c]++
	pool.freed++
	pool.free[c].push(p.head)
	return nil
}

// release is Release for shared packets, chains and kept buffers.
func (p *Pool) release(pk Packet) {
	m := &p.meta[pk.head]
	if m.refs > 1 {
		m.refs--
		return
	}
	if d := p.debug.Load(); d != nil {
		d.ended(d.packets, pk.head, pk.gen, "released")
	}
	if m.flags&flagLoan != 0 {
		// The owner's share of the loan ends. While other goroutines have references, the buffers stay lent.
		if !p.dropShare(pk.head) {
			m.refs = 0
			m.gen++
			p.setState(pk.head, stateLent)
			return
		}
	}
	p.freeChain(pk.head)
}

// freeChain ends the packet at head, to which no reference is left: buffers go to the free lists, but for those that Buffer.Retain keeps. It
// returns the packet's number of buffers.
func (p *Pool) freeChain(head uint32) int {
	m := &p.meta[head]
	m.refs = 0
	m.gen++
	if p.front(head) != head {
		p.emptyHead(head)
	}
	m.flags = 0
	n := 0
	for i := head; i != none; n++ {
		m := &p.meta[i]
		next := m.next
		if m.bufRefs == 0 {
			p.freeBuffer(i, m)
		} else {
			m.next = none
			m.state = stateRetained
		}
		i = next
	}
	return n
}

// countStaleRelease is Release of a handle that is used up: ErrStale, or in debug mode a panic that names both holders.
func (p *Pool) countStaleRelease(pk Packet) error {
	p.stats.StaleReleases++
	if d := p.debug.Load(); d != nil {
		panic(d.report("release of a stale packet", d.packets, pk.head, pk.gen))
	}
	return ErrStale
}

// exclusive reports whether the caller's reference is the only one.
func (p *Pool) exclusive(head uint32) bool {
	return p.meta[head].refs == 1 && !p.onLoan(head)
}
