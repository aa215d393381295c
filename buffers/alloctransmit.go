package buffers

// A copy that is sent lives from AllocTransmit to FreeTransmit. Both are what a ring does per frame in one pass over the buffer's record,
// where Alloc, Push, Transmit, Complete and Release are five, each with its checks: less than half of the time. See BenchmarkSentCopy.

// AllocTransmit takes a buffer for a frame that its caller writes and sends at once: a packet that is transmitting, and its bytes,
// head of them for headers before n of payload; their content is undefined. The packet is charged to nobody. Zero when no buffer is free,
// which is counted, or none has so much room.
func (p *DriverPool) AllocTransmit(head, n int) (Packet, []byte) {
	c := Small
	if n > p.layout.SmallSize {
		c = Large
	}
	f := &p.free[c]
	if f.n == 0 || uint(head) > uint(p.layout.Headroom) || uint(n) > uint(p.layout.size(c)) || p.debug.Load() != nil {
		return p.allocTransmitSlow(head, n)
	}
	f.n--
	i := f.stack[f.n]
	m := &p.meta[i]
	p.accounts[0].used[c]++
	p.avail[c]--
	m.off = p.base(i) + uint32(p.layout.Headroom-head)
	m.len = uint32(head + n)
	m.refs = 1
	m.state = stateTransmitting
	end := m.off + m.len
	return Packet{pool: &p.Pool, head: i, gen: m.gen}, p.mem[m.off:end:end]
}

// allocTransmitSlow is AllocTransmit where the usual class has nothing free, or every step is to be recorded.
func (p *DriverPool) allocTransmitSlow(head, n int) (Packet, []byte) {
	pk, err := p.Alloc(n)
	if err != nil {
		return Packet{}, nil
	}
	if _, err = pk.Push(head); err == nil {
		pk, err = p.Transmit(pk)
	}
	if err != nil {
		_ = pk.Release() // nobody else has it
		return Packet{}, nil
	}
	return pk, pk.Bytes()
}

// FreeTransmit ends a packet that was sent and that nobody waits for (transmitting or unacknowledged to free): Complete, and Release of its
// only reference.
func (p *DriverPool) FreeTransmit(pk Packet) {
	if pk.pool == &p.Pool {
		if m := &p.meta[pk.head]; m.gen == pk.gen && m.state == stateTransmitting && m.refs == 1 && m.next == none && m.bufRefs == 0 &&
			m.flags == 0 && p.debug.Load() == nil {
			m.refs = 0
			m.gen++
			p.giveBack(pk.head, m)
			return
		}
	}
	p.Complete(pk)
	_ = pk.Release() // it was alone when it was sent
}
