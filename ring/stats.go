package ring

// Statistics: totals that only grow, in plain 64-bit fields that the owner's goroutine alone writes. The name in brackets is the kernel's for
// the same.

// SocketStats are one socket's totals since it was made, those of an accepted one since it was accepted.
type SocketStats struct {
	Packets uint64 // packets received, those that the callback dropped or held included (UDP: InDatagrams)
	Bytes   uint64 // bytes received in them
	Drops   uint64 // datagrams lost for want of room in the receive buffer or budget (RcvbufErrors; ss -m: d); 0 after EventClosed

	CallbackDrops uint64 // packets for which the callback returned Drop
	CallbackHolds uint64 // packets for which the callback returned Hold

	SentMessages uint64 // messages taken by Send, SendTo, SendVector, SendPacket and SendFile (UDP: OutDatagrams)
	SentBytes    uint64 // bytes taken in them
	ShortSends   uint64 // sends refused whole or in part with ErrWouldBlock (EAGAIN)
	SendErrors   uint64 // sends refused or failed with another error (UDP: SndbufErrors and others)

	WarmSends     uint64 // calls of WarmSend that walked the path
	WarmSendsCold uint64 // calls of WarmSend that found the path not ready (EAGAIN)

	AcceptFailures uint64 // listeners: accepts that failed for want of descriptors or memory (EMFILE, ENFILE, ENOBUFS, ENOMEM)
}

// Stats returns the socket's totals. It asks the kernel for Drops with one system call where the kernel receives for the socket. Owner only.
func (s *Socket) Stats() SocketStats {
	if !s.readable() {
		return SocketStats{}
	}
	c := s.totalCounts()
	x := SocketStats{Packets: c.Packets, Bytes: c.Bytes, CallbackDrops: c.CallbackDrops, CallbackHolds: c.CallbackHolds,
		SentMessages: c.SentMessages, SentBytes: c.SentBytes, ShortSends: c.ShortSends, SendErrors: c.SendErrors,
		WarmSends: c.WarmSends, WarmSendsCold: c.WarmSendsCold, AcceptFailures: s.active().acceptErrs}
	if s.checkUse("stats") == nil {
		if n, err := s.transport().Drops(s); err == nil {
			x.Drops = uint64(n)
		}
	}
	return x
}

// RingStats are a ring's totals since it was made.
type RingStats struct {
	RingCounts

	Misuses uint64 // calls by another goroutine than the owner, which were refused

	// Driver is what an offloaded ring counts beside: each reason for which a frame was not delivered, what was sent, looped and kept, and
	// the counts of its links, those of the kernel included. Empty on other rings: the kernel counts for them. The list is made by each call.
	Driver []Counter
}

// RingCounts are the totals that a ring's owner counts: 64-bit words alone.
type RingCounts struct {
	Polls       uint64 // calls of Poll
	Hits        uint64 // calls of Poll that returned completions
	Completions uint64 // completions returned
	Sleeps      uint64 // calls of Arm and Wait that announced a sleep
	Packets     uint64 // packets received by all its sockets
	Bytes       uint64 // bytes received in them
	Truncated   uint64 // datagrams cut because no buffer was large enough, delivered with ErrTruncated (MSG_TRUNC)
	ClosedDrops uint64 // packets that arrived for, or were queued on, a socket that the application had closed

	Accepted       uint64 // connections accepted on this ring (TCP: PassiveOpens)
	AcceptedAway   uint64 // connections that Config.AcceptTo took; not in Accepted
	AcceptFailures uint64 // accepts that failed for want of descriptors or memory: the listener tries again after a pause (EMFILE, ENFILE ...)

	CallbackDrops  uint64 // packets for which a callback returned Drop
	CallbackHolds  uint64 // packets for which a callback returned Hold
	CallbackPanics uint64 // panics of callbacks and of Config.AcceptTo

	Starved     uint64 // times that reading stopped because the pool was empty
	BudgetStops uint64 // times that a socket stopped reading because it was over its budget

	SentMessages uint64 // messages that Send and its siblings took
	SentBytes    uint64 // bytes taken in them
	ShortSends   uint64 // sends refused whole or in part with ErrWouldBlock (EAGAIN)
	LostSends    uint64 // datagrams that Send had taken and that failed later, or were given up with their socket
	Paced        uint64 // datagrams that waited for their time, see SetPacing

	Stamped       uint64 // transmit time stamps reported
	StampsMissing uint64 // transmit time stamps that never came
	CardFailures  uint64 // reads of a network card's clock that failed

	WarmSends     uint64 // calls of WarmSend that walked the path
	WarmSendsCold uint64 // calls of WarmSend that found the path not ready (EAGAIN)

	Posted              uint64 // functions run that Post left
	ReturnedFromLending uint64 // lent buffers that came back
}

// Counter is one count with its stable name, such as "udp.no_socket".
type Counter struct {
	Name  string
	Value uint64
}

// Stats returns the ring's totals. Owner, or any goroutine before the first Poll.
func (r *Ring) Stats() RingStats {
	if !r.readable() {
		return RingStats{}
	}
	s := RingStats{RingCounts: r.stats.RingCounts, Misuses: r.misuses.Load()}
	if x, ok := r.drv.(CounterSource); ok {
		s.Driver = x.Counters(nil)
	}
	return s
}

// PacketsOf is how many packets the ring has received, those that a callback took included: RingCounts.Packets alone, for loops that look at
// it in each turn. Owner only.
func PacketsOf(r *Ring) uint64 { return r.stats.Packets }

// countSends counts messages that the transport took, and bytes in them, for the socket and its ring; 0 messages for a part of one.
func (s *Socket) countSends(messages, bytes int) {
	r := s.ring()
	r.stats.SentMessages += uint64(messages)
	r.stats.SentBytes += uint64(bytes)
	s.countSent(r, messages, bytes)
}

// countShortSend counts a send that was refused whole or in part.
func (s *Socket) countShortSend() {
	s.ring().stats.ShortSends++
	s.activate().counts.ShortSends++
}

// totals are the counts of a socket without a page, as far as they have room in its record. What has no room in 32 bits goes to its active
// state, and is kept beside the records when the socket becomes idle. A socket with a page counts there instead, until the page is closed.
type totals struct{ packets, bytes, sentMessages, sentBytes uint32 }

// receive is countReceived for a socket without a page: false, and nothing has happened, when a number would wrap. It is inlined.
func (t *totals) receive(n uint32) bool {
	if t.packets == 1<<32-1 || t.bytes > 1<<32-1-n {
		return false
	}
	t.packets++
	t.bytes += n
	return true
}

// countReceived counts a packet of n bytes, less than 4 GiB, in the socket's page, or without one in its record. r is its ring.
func (s *Socket) countReceived(r *Ring, n int, viaKernel bool) {
	if !r.pageReceived(s.handle.Slot, n, viaKernel) && !s.totals.receive(uint32(n)) {
		s.addCounts(1, uint64(n), 0, 0)
	}
}

// countSent counts messages that were sent, and n bytes in them, in the same place.
func (s *Socket) countSent(r *Ring, messages, n int) {
	if !r.pageSent(s.handle.Slot, messages, n) {
		s.addCounts(0, 0, uint64(messages), uint64(n))
	}
}

// addCounts adds to the counts of the socket's record: what they have no room for goes to the active state.
func (s *Socket) addCounts(packets, bytes, sentMessages, sentBytes uint64) {
	t := &s.totals
	for _, x := range [...]struct {
		low   *uint32
		high  func(c *socketCounts) *uint64
		added uint64
	}{
		{&t.packets, func(c *socketCounts) *uint64 { return &c.Packets }, packets},
		{&t.bytes, func(c *socketCounts) *uint64 { return &c.Bytes }, bytes},
		{&t.sentMessages, func(c *socketCounts) *uint64 { return &c.SentMessages }, sentMessages},
		{&t.sentBytes, func(c *socketCounts) *uint64 { return &c.SentBytes }, sentBytes},
	} {
		sum := uint64(*x.low) + x.added
		*x.low = uint32(sum)
		if carry := sum >> 32 << 32; carry != 0 {
			*x.high(&s.activate().counts) += carry
		}
	}
}

// totalCounts adds up the socket's counts: those of its page, 32 bits in the record, and the rest in its active state, or in the set's table
// while it has none.
func (s *Socket) totalCounts() socketCounts {
	c := s.active().counts
	if s.marks&markCounts != 0 && !s.isActive() {
		c = s.makerSet().sockets.counts[s.at]
	}
	c.Packets += uint64(s.totals.packets)
	c.Bytes += uint64(s.totals.bytes)
	c.SentMessages += uint64(s.totals.sentMessages)
	c.SentBytes += uint64(s.totals.sentBytes)
	if r := s.ring(); r != nil {
		if x := r.pageOf(s); x != nil {
			c.Packets += x.page.Packets
			c.Bytes += x.page.Bytes
			c.SentMessages += x.page.SentMessages
			c.SentBytes += x.page.SentBytes
		}
	}
	return c
}
