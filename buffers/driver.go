package buffers

import "fmt"

// DriverPool is a Pool with the calls that move its buffers between the kernel, a ring and the application. The ring core, its drivers,
// links and protocol stacks use it; an application gets the embedded Pool alone, from its poller, and with that none of these calls.
//
// All calls are for the owner goroutine unless their comment says otherwise. Wrong arguments are bugs of the caller: they panic with the
// buffer's index. A driver that receives indexes or lengths from outside the process checks them before the call.
type DriverPool struct {
	Pool
}

// Take takes a free buffer of class c for filling (free to filling) and returns its index. When none is free beyond the reserve (SetReserve), it
// first reclaims what other goroutines have released; false when there is still none, which Stats.Exhausted counts.
func (p *DriverPool) Take(c Class) (uint32, bool) {
	f := &p.free[c]
	if f.n <= f.reserve {
		return p.takeReclaimed(c)
	}
	f.n--
	i := f.stack[f.n]
	p.meta[i].state = stateFilling
	return i, true
}

// takeReclaimed is Take when the free list has no more than the reserve.
func (p *DriverPool) takeReclaimed(c Class) (uint32, bool) {
	i, ok := p.take(c, p.free[c].reserve)
	if !ok {
		p.stats.Exhausted++
	}
	return i, ok
}

// take takes a free buffer, if more than reserve are free, or are after a Reclaim.
func (p *Pool) take(c Class, reserve int) (uint32, bool) {
	f := &p.free[c]
	if f.n <= reserve && (p.Reclaim() == 0 || f.n <= reserve) {
		return none, false
	}
	f.n--
	i := f.stack[f.n]
	p.meta[i].state = stateFilling
	return i, true
}

// Return puts back a buffer that Take returned and that was not filled (filling to free).
func (p *DriverPool) Return(i uint32) {
	m := &p.meta[i]
	if m.state != stateFilling {
		panic(fmt.Sprintf("buffers: Return: buffer %d is %v, not filling", i, m.state))
	}
	m.state = stateFree
	p.freed++
	p.free[p.classOf(i)].push(i)
}

// Memory is the whole of buffer i, headroom included: a driver passes it to the kernel or the card, which writes there. Any goroutine.
func (p *DriverPool) Memory(i uint32) []byte {
	start, end := p.base(i), p.end(i)
	return p.mem[start:end:end]
}

// ClassOf is the size class of buffer i. Any goroutine.
func (p *DriverPool) ClassOf(i uint32) Class { return p.classOf(i) }

// Fill makes a packet of a filling buffer (filling to received): its payload is Memory(i)[off:off+n], it has one
// reference and is charged to a. If a was closed in the meantime and its slot is free, the packet is charged to no account, and
// Stats.StaleAccounts counts it.
func (p *DriverPool) Fill(i uint32, off, n int, a Account) Packet { return p.fill(i, off, n, a) }

// fill is Fill, for Alloc too.
func (p *Pool) fill(i uint32, off, n int, a Account) Packet {
	m, c := &p.meta[i], p.classOf(i)
	if m.state != stateFilling || uint(off) > uint(p.strides[c]) || uint(n) > uint(p.strides[c])-uint(off) {
		p.badFill(i, off, n)
	}
	slot := uint32(a & slotMask)
	if int(slot) >= len(p.accounts) || p.accounts[slot].id != a {
		p.stats.StaleAccounts++
		slot = 0
	}
	acc := &p.accounts[slot]
	acc.used[c]++
	if acc.asks {
		p.filled[i] = uint32(n)
	}
	p.avail[c]--
	m.account = slot
	m.off = p.base(i) + uint32(off)
	m.len = uint32(n)
	m.refs = 1
	m.state = stateReceived
	return Packet{pool: p, head: i, gen: m.gen}
}

// badFill panics for Fill with the arguments that were wrong.
func (p *Pool) badFill(i uint32, off, n int) {
	panic(fmt.Sprintf("buffers: Fill: buffer %d is %v, off is %d, n is %d: want filling, and a payload within %d bytes",
		i, p.meta[i].state, off, n, p.strides[p.classOf(i)]))
}

// Append chains two packets: tail's buffers follow head's, in head's state, and tail's handle is used up. Returns head;
// if one of the two is zero, the other. Both must be received or held, with a single reference and not lent.
func (p *Pool) Append(head, tail Packet) Packet {
	if head.IsZero() {
		return tail
	}
	if tail.IsZero() {
		return head
	}
	h, t := p.mustBeChainable("Append: head", head), p.mustBeChainable("Append: tail", tail)
	if head.head == tail.head {
		panic(fmt.Sprintf("buffers: Append: buffer %d is head and tail", head.head))
	}
	hc, tc := p.extent(head.head), p.extent(tail.head)
	if p.front(tail.head) != tail.head {
		p.emptyHead(tail.head)
	}
	t.refs, t.flags = 0, 0
	t.gen++
	p.setState(tail.head, h.state)
	p.meta[hc.tail].next = tail.head
	c := &p.chains[head.head]
	c.tail, c.count, c.bytes = tc.tail, hc.count+tc.count, hc.bytes+tc.bytes
	if h.flags&flagRead != 0 {
		p.skipEmpty(head.head)
	}
	if d := p.debug.Load(); d != nil {
		d.ended(d.packets, tail.head, tail.gen, "appended")
	}
	return head
}

// mustBeChainable returns the head's record of a packet that Append may change, and panics for another.
func (p *Pool) mustBeChainable(what string, pk Packet) *meta {
	m := p.mustBeLive(what, pk)
	if m.state != stateReceived && m.state != stateHeld || !p.exclusive(pk.head) {
		panic(fmt.Sprintf("buffers: %s: buffer %d is %v with %d references", what, pk.head, m.state, m.refs))
	}
	return m
}

// extent describes the packet at head as a chain, also one of a single buffer, for which chains has nothing.
func (p *Pool) extent(head uint32) chain {
	if m := &p.meta[head]; m.next == none {
		return chain{tail: head, count: 1, bytes: m.len}
	}
	return p.chains[head]
}

// Deliver hands a packet to the application (received to held, the whole chain). It also returns a sent packet to
// its sender (completing to held). A packet that is already held stays so: one that several sockets share is delivered
// to each.
func (p *DriverPool) Deliver(pk Packet) {
	m := p.mustBeLive("Deliver", pk)
	switch {
	case m.state != stateReceived && m.state != stateCompleting && m.state != stateHeld:
		panic(fmt.Sprintf("buffers: Deliver: buffer %d is %v", pk.head, m.state))
	case m.next == none:
		m.state = stateHeld
	default:
		p.setState(pk.head, stateHeld)
	}
	if d := p.debug.Load(); d != nil {
		d.held(d.packets, pk.head, pk.gen)
	}
}

// DeliverTo is Deliver on the ring's receive path, together with what the ring asks next: the payload's length, and whether account a,
// to which the packet is charged, is now over (see Over). One pass over the buffer's record instead of three: 5 ns a packet.
func (p *DriverPool) DeliverTo(pk Packet, a Account) (n int, over bool) {
	m := &p.meta[pk.head]
	if pk.pool != &p.Pool || m.gen != pk.gen || m.state != stateReceived || m.next != none || p.debug.Load() != nil {
		n = pk.Len()
		p.Deliver(pk)
		return n, p.Over(a)
	}
	m.state = stateHeld
	acc := &p.accounts[m.account]
	return int(m.len), m.account != 0 && (acc.used[Small] > p.forAnyQueue(Small) || acc.used[Large] > p.forAnyQueue(Large) ||
		acc.limit > 0 && acc.bytes(&p.Pool) >= acc.limit)
}

// FillHeld is Fill and DeliverTo in one pass, for a buffer whose packet goes straight to the application (filling to held).
func (p *DriverPool) FillHeld(i uint32, off, n int, a Account) (pk Packet, over bool) {
	m, c := &p.meta[i], p.classOf(i)
	slot := uint32(a & slotMask)
	if m.state != stateFilling || uint(off) > uint(p.strides[c]) || uint(n) > uint(p.strides[c])-uint(off) ||
		int(slot) >= len(p.accounts) || p.accounts[slot].id != a || p.debug.Load() != nil {
		pk = p.Fill(i, off, n, a)
		_, over = p.DeliverTo(pk, a)
		return pk, over
	}
	acc := &p.accounts[slot]
	acc.used[c]++
	if acc.asks {
		p.filled[i] = uint32(n)
	}
	p.avail[c]--
	m.account = slot
	m.off = p.base(i) + uint32(off)
	m.len = uint32(n)
	m.refs = 1
	m.state = stateHeld
	return Packet{pool: &p.Pool, head: i, gen: m.gen}, slot != 0 && (acc.used[Small] > p.forAnyQueue(Small) || acc.used[Large] > p.forAnyQueue(Large) ||
		acc.limit > 0 && acc.bytes(&p.Pool) >= acc.limit)
}

// Transmit takes the caller's packet for sending (held to transmitting): the caller's handle is used up, the returned
// one is the ring's. Only a packet with a single reference can be sent, since the ring may write headers before the
// payload; a buffer that is only kept by Buffer.Retain may. On error nothing has changed: ErrOtherPool, ErrStale,
// ErrShared, ErrState.
func (p *DriverPool) Transmit(pk Packet) (Packet, error) {
	if pk.pool != &p.Pool && pk.pool != nil {
		return Packet{}, ErrOtherPool
	}
	if err := pk.check(); err != nil {
		return Packet{}, err
	}
	m := &p.meta[pk.head]
	if m.state != stateHeld && m.state != stateReceived {
		return Packet{}, ErrState
	}
	if !p.exclusive(pk.head) {
		return Packet{}, ErrShared
	}
	m.gen++
	p.setState(pk.head, stateTransmitting)
	if d := p.debug.Load(); d != nil {
		d.ended(d.packets, pk.head, pk.gen, "sent")
	}
	return Packet{pool: &p.Pool, head: pk.head, gen: m.gen}, nil
}

// UndoTransmit undoes Transmit, which returned sent for pk, when a driver has refused the send: the caller's handle pk is valid again
// (transmitting to held).
func (p *DriverPool) UndoTransmit(pk, sent Packet) {
	m := p.mustBeLive("UndoTransmit", sent)
	if m.state != stateTransmitting || pk.pool != &p.Pool || pk.head != sent.head || pk.gen+1 != sent.gen {
		panic(fmt.Sprintf("buffers: UndoTransmit: buffer %d is %v, handle has generation %d, packet %d", sent.head, m.state, pk.gen, m.gen))
	}
	m.gen = pk.gen
	p.setState(pk.head, stateHeld)
	if d := p.debug.Load(); d != nil {
		d.held(d.packets, pk.head, pk.gen)
	}
}

// Complete notes that a packet is sent (transmitting or unacknowledged to completing); the ring then releases it, or returns it to the
// sender with Deliver.
func (p *DriverPool) Complete(pk Packet) {
	if m := p.mustBeLive("Complete", pk); m.state != stateTransmitting && m.state != stateUnacknowledged {
		panic(fmt.Sprintf("buffers: Complete: buffer %d is %v, not transmitting", pk.head, m.state))
	}
	p.setState(pk.head, stateCompleting)
}

// mustBeLive returns the head's record of a packet, and panics if the handle is zero, stale or of another pool; what is the name of the call.
func (p *Pool) mustBeLive(what string, pk Packet) *meta {
	if pk.IsZero() {
		panic(fmt.Sprintf("buffers: %s: %v", what, ErrNone))
	}
	if pk.pool != p {
		panic(fmt.Sprintf("buffers: %s: buffer %d: %v", what, pk.head, ErrOtherPool))
	}
	m := &p.meta[pk.head]
	if m.gen != pk.gen {
		if d := p.debug.Load(); d != nil {
			panic(d.report(what+" of a stale packet", d.packets, pk.head, pk.gen))
		}
		panic(fmt.Sprintf("buffers: %s: buffer %d: handle has generation %d, packet %d: %v",
			what, pk.head, pk.gen, m.gen, ErrStale))
	}
	return m
}
