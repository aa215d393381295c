package buffers

import (
	"fmt"
	"math/bits"
)

// The functions of this file are for links, which carry whole frames: the region is what the card is told of, a frame's place in it
// is a number, and headers come off and go on around the payload, which stays where it is.
//
//	receive:  | headroom | eth | ip | udp | payload | padding |      Trim leaves the payload
//	send:     | headroom ......... | udp | payload |                 Push moves the start left, layer by layer

// Region is the memory that New divided, exactly as long as the layout needs: what a card is registered with. Places in it are
// offsets from its start. Any goroutine.
func (p *DriverPool) Region() []byte { return p.mem }

// Locate finds the buffer that the region's byte off belongs to, and the byte's place in that buffer's Memory; false when off is
// beyond the last buffer. Links use it on numbers that come from outside the process. Any goroutine.
func (p *DriverPool) Locate(off uint64) (i uint32, at uint32, ok bool) {
	if off >= uint64(len(p.mem)) {
		return none, 0, false
	}
	o := uint32(off)
	if large := p.small * p.strides[Small]; o >= large {
		i = divide(o-large, p.inverse[Large])
		at = o - large - i*p.strides[Large]
		return p.small + i, at, true
	}
	i = divide(o, p.inverse[Small])
	return i, o - i*p.strides[Small], true
}

// inverse is the number with which divide does a division by d, exact for dividends below 2³² (Lemire, Kaser, Kurz: Faster
// remainder by direct computation, 2019, theorem 1): a multiplication, 1 ns, where the division takes 6. d is 2 or more.
func inverse(d uint32) uint64 { return ^uint64(0)/uint64(d) + 1 }

// divide is n / d, where inverse is inverse(d).
func divide(n uint32, inverse uint64) uint32 {
	hi, _ := bits.Mul64(inverse, uint64(n))
	return uint32(hi)
}

// Place is where a piece of a packet's payload lies in the region.
type Place struct {
	Off    uint32 // of the first byte, in Region
	Len    uint32 // bytes
	Buffer uint32 // the buffer they are in
	next   uint32
}

// View is the payload of a received packet that lies in one buffer; false when it is in several.
func (p *DriverPool) View(pk Packet) ([]byte, bool) {
	m := &p.meta[pk.head]
	if pk.pool != &p.Pool || m.gen != pk.gen || m.next != none {
		return pk.Bytes(), pk.NumBuffers() < 2
	}
	end := m.off + m.len
	return p.mem[m.off:end:end], true
}

// Place is where the packet's first buffer with unread bytes has them: what a card is told to send. The packet must be live.
// Owner goroutine.
func (p *DriverPool) Place(pk Packet) Place {
	if m := &p.meta[pk.head]; pk.pool == &p.Pool && m.gen == pk.gen && m.flags == 0 {
		return Place{Off: m.off, Len: m.len, Buffer: pk.head, next: m.next}
	}
	m := p.mustBeLive("Place", pk)
	f := p.front(pk.head)
	return Place{Off: m.off, Len: m.len, Buffer: f, next: p.meta[f].next}
}

// More reports whether buffers follow in the chain.
func (l Place) More() bool { return l.next != none }

// NextPlace is the place of the buffer that follows in the chain; More must be true.
func (p *DriverPool) NextPlace(l Place) Place {
	m := &p.meta[l.next]
	return Place{Off: m.off, Len: m.len, Buffer: l.next, next: m.next}
}

// Push opens n bytes before the payload, for a header, and returns them; their content is undefined. It works on packets being
// built (held) and on those the ring has taken over (transmitting). Errors: ErrStale, ErrShared, ErrSize (the buffer has less
// headroom than n left).
func (p Packet) Push(n int) ([]byte, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if !p.pool.exclusive(p.head) {
		return nil, ErrShared
	}
	m, f := &p.pool.meta[p.head], p.pool.front(p.head)
	if room := m.off - p.pool.base(f); uint(n) > uint(room) {
		return nil, fmt.Errorf("buffers: Push: n is %d, the headroom is %d: %w", n, room, ErrSize)
	}
	if m.next != none {
		p.pool.chains[p.head].bytes += uint32(n)
	}
	p.pool.setView(p.head, f, m.off-uint32(n), m.len+uint32(n))
	return p.pool.mem[m.off : m.off+uint32(n) : m.off+uint32(n)], nil
}

// Headroom is how many bytes Push can open; 0 for a zero or used-up handle.
func (p Packet) Headroom() int {
	if !p.Valid() {
		return 0
	}
	return int(p.pool.meta[p.head].off - p.pool.base(p.pool.front(p.head)))
}

// Trim reduces a received frame to the payload in it: the packet's bytes become its bytes off to off+n, and its buffers are charged to account
// a, which only the parsed headers tell. One pass where Pull, SetLen and a new account would be three. The packet must
// be received, with a single reference and charged to no account. If a was closed in the meantime, the buffers stay uncharged, and
// Stats.StaleAccounts counts it.
func (p *DriverPool) Trim(pk Packet, off, n int, a Account) {
	slot := uint32(a & slotMask)
	if m := &p.meta[pk.head]; pk.pool == &p.Pool && m.gen == pk.gen && m.state == stateReceived && m.account == 0 && m.refs == 1 &&
		m.next == none && m.flags == 0 && uint(off) <= uint(m.len) && uint(n) <= uint(m.len)-uint(off) &&
		int(slot) < len(p.accounts) && p.accounts[slot].id == a {
		c := p.classOf(pk.head)
		acc := &p.accounts[slot]
		p.accounts[0].used[c]--
		acc.used[c]++
		if acc.asks {
			p.filled[pk.head] = uint32(n)
		}
		m.account = slot
		m.off += uint32(off)
		m.len = uint32(n)
		return
	}
	p.trimSlow(pk, off, n, a)
}

// DeliverFrame is Trim and DeliverTo in one pass, for a frame whose datagram goes straight to the application (received to held). over is as
// DeliverTo returns it. ok is false, and nothing has changed, for a packet of several buffers, with other references, stale, or of a closed
// account, and in debug mode: the caller then uses Trim and DeliverTo.
func (p *DriverPool) DeliverFrame(pk Packet, off, n int, a Account) (over, ok bool) {
	slot := uint32(a & slotMask)
	m := &p.meta[pk.head]
	if pk.pool != &p.Pool || m.gen != pk.gen || m.state != stateReceived || m.account != 0 || m.refs != 1 || m.next != none || m.flags != 0 ||
		uint(off) > uint(m.len) || uint(n) > uint(m.len)-uint(off) ||
		int(slot) >= len(p.accounts) || p.accounts[slot].id != a || p.debug.Load() != nil {
		return false, false
	}
	c := p.classOf(pk.head)
	acc := &p.accounts[slot]
	p.accounts[0].used[c]--
	acc.used[c]++
	if acc.asks {
		p.filled[pk.head] = uint32(n)
	}
	m.account = slot
	m.off += uint32(off)
	m.len = uint32(n)
	m.state = stateHeld
	return slot != 0 && (acc.used[Small] > p.forAnyQueue(Small) || acc.used[Large] > p.forAnyQueue(Large) ||
		acc.limit > 0 && acc.bytes(&p.Pool) >= acc.limit), true
}

// trimSlow is Trim for the cases that its fast path excludes: chains, packets that were pulled, closed accounts. It panics with the reason
// when the packet or the range is wrong.
func (p *DriverPool) trimSlow(pk Packet, off, n int, a Account) {
	m := p.mustBeLive("Trim", pk)
	if m.state != stateReceived || m.account != 0 || !p.exclusive(pk.head) {
		panic(fmt.Sprintf("buffers: Trim: buffer %d is %v with %d references, charged to account slot %d: want received, 1, 0",
			pk.head, m.state, m.refs, m.account))
	}
	if length := p.length(pk.head); uint(off) > uint(length) || uint(n) > uint(length-off) {
		panic(fmt.Sprintf("buffers: Trim: off is %d, n is %d, packet %d has %d bytes", off, n, pk.head, length))
	}
	slot := uint32(a & slotMask)
	if int(slot) >= len(p.accounts) || p.accounts[slot].id != a {
		p.stats.StaleAccounts++
		slot = 0
	}
	if p.accounts[slot].asks {
		p.filled[pk.head] = uint32(n) // the head comes back with the last of the chain
	}
	if m.next != none || m.flags != 0 {
		p.trimChain(pk.head, uint32(off), uint32(n), slot)
		return
	}
	c := p.classOf(pk.head)
	p.accounts[0].used[c]--
	p.accounts[slot].used[c]++
	m.account = slot
	m.off += uint32(off)
	m.len = uint32(n)
}

// trimChain is Trim for a packet of several buffers, or one of which bytes were pulled before: each buffer is charged to the account in
// slot, off bytes go from the front, and what follows the next n bytes is cut off.
func (p *DriverPool) trimChain(head, off, n, slot uint32) {
	for i := head; i != none; i = p.meta[i].next {
		c := p.classOf(i)
		p.accounts[0].used[c]--
		p.accounts[slot].used[c]++
		p.meta[i].account = slot
	}
	p.pull(head, off)
	m, f := &p.meta[head], p.front(head)
	if m.next != none {
		p.chains[head].bytes = n
	}
	left := n - min(n, m.len)
	p.setView(head, f, m.off, min(n, m.len))
	for i := p.meta[f].next; i != none; i = p.meta[i].next {
		k := min(left, p.meta[i].len)
		p.meta[i].len = k
		left -= k
	}
}
