package ring

// EachSocket calls f for every socket of the ring, in the order of their slots; those being closed are among them. f
// may close and abort sockets. It takes time proportional to the most sockets there ever were: for shutting down and
// for reports. Owner only.
func (r *Ring) EachSocket(f func(*Socket)) error {
	if err := r.check(); err != nil {
		return &OpError{Op: "each socket", Err: err}
	}
	for s := range r.slots.all {
		f(s)
	}
	return nil
}

// Sending reports whether something of the socket is still on its way out on this side of the kernel: packets given to
// SendPacket, or data that Send did not take, so that the application waits for EventOut. Owner only.
func (s *Socket) Sending() bool {
	return s.readable() && s.state <= stateOpen && (s.active().sending.busy() || s.wantOut)
}
