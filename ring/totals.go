package ring

// totals are the part of a socket's counts that its record has. What has no room in 32 bits goes to its active state, and is kept beside the
// records when the socket becomes idle.
type totals struct{ packets, bytes, sentMessages, sentBytes uint32 }

// countReceived counts a packet, countSent a message or part of one. n is less than 4 GiB.
func (s *Socket) countReceived(n int) {
	t := &s.totals
	t.packets++
	t.bytes += uint32(n)
	if t.packets == 0 || t.bytes < uint32(n) {
		c := &s.activate().counts
		c.Packets += carry(t.packets == 0)
		c.Bytes += carry(t.bytes < uint32(n))
	}
}

func (s *Socket) countSent(messages, n int) {
	t := &s.totals
	t.sentMessages += uint32(messages)
	t.sentBytes += uint32(n)
	if t.sentMessages < uint32(messages) || t.sentBytes < uint32(n) {
		c := &s.activate().counts
		c.SentMessages += carry(t.sentMessages < uint32(messages))
		c.SentBytes += carry(t.sentBytes < uint32(n))
	}
}

func carry(over bool) uint64 {
	if over {
		return 1 << 32
	}
	return 0
}

// totalCounts puts together what the record, its active state and the set have.
func (s *Socket) totalCounts() socketCounts {
	c := s.active().counts
	if s.hasCounts && !s.isActive() {
		c = s.home().sockets.counts[s.at]
	}
	c.Packets += uint64(s.totals.packets)
	c.Bytes += uint64(s.totals.bytes)
	c.SentMessages += uint64(s.totals.sentMessages)
	c.SentBytes += uint64(s.totals.sentBytes)
	return c
}
