package ring

// Mode is how a socket's packets reach the application. Mixing them is an error: VMA lost data where poll and recv met.
type Mode uint8

// The delivery modes.
const (
	// Completions: each packet is a completion of Poll, after the callback, if there is one, kept it.
	Completions Mode = iota
	// Callback: the callback sees each packet inside Poll; those it keeps wait on the socket for Receive, and EventIn reports them.
	Callback
	// Queue: packets wait on the socket for Receive, and EventIn reports them.
	Queue
)

// String is the value in words.
func (m Mode) String() string {
	if int(m) < 3 {
		return [...]string{"completions", "callback", "queue"}[m]
	}
	return itoa(int(m))
}

// Verdict is a callback's decision about a packet.
type Verdict uint8

// The verdicts (VMA: VMA_PACKET_DROP, VMA_PACKET_RECV, VMA_PACKET_HOLD).
const (
	Drop Verdict = iota // the ring releases the packet
	Keep                // it goes on to the completions or the socket's queue
	Hold                // the callback has it: its owner releases it later
)

// ReceiveCallback sees every packet of a socket inside Poll, in order, before it is queued; c is complete but valid during the call only.
// It must not close the ring; it may close its socket, send, and release or retain the packet.
type ReceiveCallback func(s *Socket, c *Completion) Verdict

// SetReceiveMode fixes the delivery mode and the callback (nil for none; Callback needs one). It must come before the socket's first packet:
// before listen, bind or connect, or in the turn that delivered its NEW_CONNECTION. Accepted sockets inherit both from their
// listener, because early data comes together with NEW_CONNECTION. Queue and Callback are one way of delivery, with and without a
// callback: between these two, and for another callback in the same mode, it may be called at any time. Owner only, from inside a callback
// as well: the next packet meets the new one. (VMA: register_recv_callback, two plain stores that race with a running callback.)
func (s *Socket) SetReceiveMode(m Mode, h ReceiveCallback) error {
	if err := s.mayUse("set receive mode"); err != nil {
		return err
	}
	return traced(s, "set receive mode", m, s.setReceiveMode(m, h))
}

// setReceiveMode is SetReceiveMode for a caller that is the owner.
func (s *Socket) setReceiveMode(m Mode, h ReceiveCallback) error {
	switch {
	case m > Queue:
		return badArgument("set receive mode", "mode", m)
	case m == Callback && h == nil:
		return badArgument("set receive mode", "callback mode with a callback", nil)
	case m == Queue && h != nil:
		return badArgument("set receive mode", "queue mode with a callback; want", Callback)
	}
	if (s.touched || s.isAccepted() && !s.announced) && (m == Completions) != (s.mode == Completions) {
		return &OpError{Op: "set receive mode", Err: ErrMode}
	}
	s.mode = m
	if h != nil || s.isActive() {
		s.activate().callback = h
	}
	s.updateSlowPath()
	return nil
}

// Receive moves waiting packets of a socket in Callback or Queue mode into dst and returns how many. With none waiting it
// answers ErrNothing, io.EOF after the peer's FIN, or the error that ended the connection. In Completions mode it is ErrMode.
// Owner only. (VMA: recvfrom_zcopy.)
func (s *Socket) Receive(dst []Completion) (int, error) {
	n, _, err := s.receive(dst, noLimit, anyPath)
	return n, err
}
