package ring

// Counts are one socket's totals since it was made, those of an accepted one since it was accepted. What the kernel or a stack of our own
// lost before the ring had it is Drops.
type Counts struct {
	Packets, Bytes               uint64 // received, those that the callback dropped or held included
	CallbackDrops, CallbackHolds uint64
	SentMessages, SentBytes      uint64 // by Send, SendTo, SendVector and SendPacket
	ShortSends                   uint64 // refused whole or in part: ErrWouldBlock
	SendErrors                   uint64
	WarmSends, WarmSendsCold     uint64 // WarmSend that walked the path; that found it not ready, EAGAIN
}

// Counts returns the socket's totals. Owner only.
func (s *Socket) Counts() Counts {
	if !s.readable() {
		return Counts{}
	}
	return s.counts
}

// State is what the socket is doing, in a word: "new", "connecting", "open", "listening", "dead" (ended by an error), "closing",
// "closed". Owner only; "" for others.
func (s *Socket) State() string {
	if !s.readable() {
		return ""
	}
	return s.state.String()
}

// sentNow counts a message that left, or part of one.
func (s *Socket) sentNow(messages, bytes int) {
	s.ring.stats.SentMessages += uint64(messages)
	s.ring.stats.SentBytes += uint64(bytes)
	s.counts.SentMessages += uint64(messages)
	s.counts.SentBytes += uint64(bytes)
}

// sentShort counts a send that was refused whole or in part.
func (s *Socket) sentShort() {
	s.ring.stats.ShortSends++
	s.counts.ShortSends++
}
