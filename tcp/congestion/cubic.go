package congestion

// Cubic is RFC 9438. It counts in whole numbers, so that a simulation is the same on every machine: windows in bytes, time in milliseconds.
//
//	W(t) = C (t - K)³ + W_max        C = 0.4 segments a second³, β = 0.7
type Cubic struct{}

const (
	betaTenths = 7
	maxShift   = 100_000 // milliseconds from the middle of the curve that are computed with: W would leave 30 bits long before
)

// Acked is RFC 9438 section 4.2: slow start, then the larger one of the cubic and Reno's window.
func (Cubic) Acked(s *State, a Ack) {
	left := a.Bytes
	if s.InSlowStart() {
		left = s.slowStart(a)
	}
	if left <= 0 {
		return
	}
	now := uint32(max(int64(a.Now)/1_000_000, 1))
	if s.epoch == 0 {
		s.begin(now, a.MSS)
	}
	// Section 4.3: Reno's window grows by 3 (1-β)/(1+β) = 9/17 of a segment for each window, and by a whole one above the prior window.
	if s.reno < s.priorWindow {
		s.reno += uint32(int64(left) * int64(a.MSS) * 9 / 17 / int64(max(s.Window, 1)))
	} else {
		s.reno += uint32(int64(left) * int64(a.MSS) / int64(max(s.Window, 1)))
	}
	s.reno = min(s.reno, MaxWindow)
	t := int64(now-s.epoch) + int64(a.RTT)/1_000_000 // section 4.2: where the curve is a round trip from now
	target := s.curve(t, a.MSS)
	if target < int64(s.reno) && s.curve(int64(now-s.epoch), a.MSS) < int64(s.reno) {
		s.Window = max(s.Window, s.reno) // the Reno-friendly region
		return
	}
	target = min(target, int64(s.Window)*3/2)
	if target <= int64(s.Window) {
		s.counted += uint32(left)
		if s.counted > 100*s.Window { // section 4.4: hardly any growth on the plateau
			s.counted = 0
			s.grow(a.MSS)
		}
		return
	}
	// Section 4.4: the window grows by (target - cwnd)/cwnd of what is acknowledged.
	gain := (target - int64(s.Window)) * (int64(left) + int64(s.counted))
	step := gain / int64(s.Window)
	if step == 0 {
		s.counted = min(s.counted+uint32(left), s.Window)
		return
	}
	s.counted = 0
	s.grow(int(min(step, int64(left))))
}

// begin starts the curve at the first growth after a reduction (section 4.2): it computes K, the time at which the window is W_max again. now is
// in milliseconds.
func (s *State) begin(now uint32, mss int) {
	s.epoch, s.counted, s.reno = now, 0, s.Window
	if s.wMax <= s.Window {
		s.k, s.origin = 0, s.Window
		return
	}
	// K = cube root of (W_max - cwnd) / C, in milliseconds: the radicand times 1000³.
	segments := uint64(s.wMax-s.Window) * 1_000_000_000 / uint64(mss)
	s.k, s.origin = cubeRoot(segments*10/4), s.wMax
}

// curve is W(t) in bytes.
func (s *State) curve(t int64, mss int) int64 {
	d := min(max(t-int64(s.k), -maxShift), maxShift)
	return int64(s.origin) + d*d*d/1_000_000*int64(mss)/1000*4/10
}

// Reduce is RFC 9438 section 4.6, with fast convergence (4.7).
func (Cubic) Reduce(s *State, flight, mss int) {
	s.remember()
	window := uint32(min(int(s.Window), max(flight, mss)))
	if window < s.wMax {
		s.wMax = uint32(uint64(window) * (10 + betaTenths) / 20)
	} else {
		s.wMax = window
	}
	s.Threshold = max(uint32(uint64(window)*betaTenths/10), uint32(2*mss))
	s.epoch, s.counted = 0, 0
}

// Undo is RFC 9438 section 4.9.
func (Cubic) Undo(s *State) { s.restore() }

// cubeRoot is the largest r with r³ ≤ n, a bit at a time.
func cubeRoot(n uint64) uint32 {
	var r uint64
	for bit := uint64(1) << 20; bit > 0; bit >>= 1 {
		if t := r | bit; t*t*t <= n {
			r = t
		}
	}
	return uint32(r)
}
