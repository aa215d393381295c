package buffers

// A copy that is sent lives from AllocTransmit to FreeTransmit. Both are what a ring does per frame in one pass over the buffer's record,
// where Alloc, Push, Transmit, Complete and Release are five, each with its checks: less than half of the time. See BenchmarkSentCopy.

// AllocTransmit takes a buffer for a frame that its caller writes and sends at once. It returns a packet in the state transmitting, and its
// bytes: headroom of them for headers, then n of payload; their content is undefined. No account is charged. The packet is zero when no buffer
// is free, which is counted, or no buffer is that large.
func (p *DriverPool) AllocTransmit(headroom, n int) (Packet, []byte) {
	c := Small
	if n > p.layout.SmallSize {
		c = Large
	}
	f := &p.free[c]
	if f.n == 0 || uint(headroom) > uint(p.layout.Headroom) || uint(n) > uint(p.layout.size(c)) || p.debug.Load() != nil {
		return p.allocTransmitSlow(headroom, n)
	}
	f.n--
	i := f.stack[f.n]
	m := &p.meta[i]
	p.accounts[0].used[c]++
	p.avail[c]--
	m.off = p.base(i) + uint32(p.layout.Headroom-headroom)
	m.len = uint32(headroom + n)
	m.refs = 1
	m.state = stateTransmitting
	end := m.off + m.len
	return Packet{pool: &p.Pool, head: i, gen: m.gen}, p.mem[m.off:end:end]
}

// allocTransmitSlow is AllocTransmit when the class that fits best has no free buffer, the sizes are too large, or debug mode records each step.
func (p *DriverPool) allocTransmitSlow(headroom, n int) (Packet, []byte) {
	pk, err := p.alloc(n, true)
	if err != nil {
		return Packet{}, nil
	}
	if _, err = pk.Push(headroom); err == nil {
		pk, err = p.Transmit(pk)
	}
	if err != nil {
		_ = pk.Release() // nobody else has it
		return Packet{}, nil
	}
	return pk, pk.Bytes()
}

// FreeTransmit frees a packet that was sent and whose end is not reported to the application (transmitting or unacknowledged to free). It is
// Complete, and Release of the only reference.
func (p *DriverPool) FreeTransmit(pk Packet) {
	if pk.pool == &p.Pool {
		if m := &p.meta[pk.head]; m.gen == pk.gen && m.state == stateTransmitting && m.refs == 1 && m.next == none && m.bufRefs == 0 &&
			m.flags == 0 && p.debug.Load() == nil {
			m.refs = 0
			m.gen++
			p.freeBuffer(pk.head, m)
			return
		}
	}
	p.Complete(pk)
	_ = pk.Release() // it was alone when it was sent
}
