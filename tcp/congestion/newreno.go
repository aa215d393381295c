package congestion

// NewReno is RFC 5681: slow start and congestion avoidance.
type NewReno struct{}

// Acked is RFC 5681 section 3.1, counted in bytes (RFC 3465).
func (NewReno) Acked(s *State, a Ack) {
	left := a.Bytes
	if s.InSlowStart() {
		left = s.slowStart(a)
	}
	if left > 0 {
		s.avoid(left, a.MSS)
	}
}

// avoid grows by a segment for each window that is acknowledged: RFC 5681 equation (3).
func (s *State) avoid(bytes, mss int) {
	s.counted += uint32(bytes)
	if s.counted >= s.Window {
		s.counted -= s.Window
		s.grow(mss)
	}
	s.counted = min(s.counted, s.Window)
}

// Reduce is RFC 5681 equation (4).
func (NewReno) Reduce(s *State, flight, mss int) {
	s.remember()
	s.Threshold = uint32(max(flight/2, 2*mss))
	s.counted = 0
}

// Undo is RFC 4015 section 3.2.
func (NewReno) Undo(s *State) { s.restore() }

// None has no congestion control: the peer's window alone limits. It is for networks that lose nothing.
type None struct{}

// Acked keeps the window open.
func (None) Acked(s *State, _ Ack) { s.Window = MaxWindow }

// Reduce changes nothing.
func (None) Reduce(s *State, _, _ int) { s.Window, s.Threshold = MaxWindow, MaxWindow }

// Undo changes nothing.
func (None) Undo(*State) {}
