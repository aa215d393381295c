// Package congestion is congestion control: strategies that receive facts and return a window. Package tcp uses it for its connections; it
// cannot see one.
package congestion

import "github.com/socketxtreme/socketxtreme/internal/clock"

// State is what a control remembers of a connection. It holds no pointer.
type State struct {
	Window    uint32 // cwnd, bytes
	Threshold uint32 // ssthresh, bytes; MaxWindow: none yet

	counted uint32 // acknowledged bytes that did not make the window grow yet
	wMax    uint32 // CUBIC: the window before the last reduction
	k       uint32 // CUBIC: milliseconds until the window is wMax again
	epoch   uint32 // CUBIC: milliseconds; when growth began after the last reduction; 0: it did not
	origin  uint32 // CUBIC: the window in the middle of the curve
	reno    uint32 // CUBIC: what Reno's window would be

	priorWindow, priorThreshold, priorMax uint32 // before the last reduction, for Undo
}

// MaxWindow bounds all windows: RFC 7323 section 2.2.
const MaxWindow = 1 << 30

// Ack is what an acknowledgement has shown. Window growth needs it.
type Ack struct {
	Now   clock.Time
	Bytes int            // newly acknowledged
	MSS   int            // bytes of a full segment
	RTT   clock.Duration // the smoothed one; 0: not measured

	// Of the first slow start, where the caller wants RFC 9406:

	Slow        *HyStart       // what it remembers; nil: slow start ends with a loss
	Sample      clock.Duration // the round trip of this acknowledgement; 0: not measured
	Acked, Next uint32         // sequence numbers: behind what is acknowledged; behind what was sent
}

// Control is a strategy. A control keeps what it knows in the State.
type Control interface {
	// Acked makes the window grow. The caller does not call it during recovery, nor where the window was not what limited sending
	// (RFC 9293 section 3.8.3, RFC 7661).
	Acked(s *State, a Ack)
	// Reduce answers congestion: it sets Threshold to what the window is to be after it. Window is the caller's matter.
	Reduce(s *State, flight, mss int)
	// Undo takes the last Reduce back: there was no congestion.
	Undo(s *State)
}

// Controls are the strategies, in the order of the names in package tcp.
var Controls = [...]Control{Cubic{}, NewReno{}, None{}}

// Init begins with the initial window of RFC 6928.
func (s *State) Init(mss int) {
	*s = State{Window: uint32(InitialWindow(mss)), Threshold: MaxWindow}
}

// InitialWindow is RFC 6928 section 2: ten segments, at most 14,600 bytes or two segments.
func InitialWindow(mss int) int { return min(10*mss, max(2*mss, 14600)) }

// InSlowStart reports whether the window grows with each acknowledged byte.
func (s *State) InSlowStart() bool { return s.Window < s.Threshold }

// slowStart grows by what was acknowledged, at most two segments an acknowledgement (RFC 5681 section 3.1 with L = 2 of RFC 3465; the first time
// HyStart says how much), and returns the bytes that are left when the threshold is reached.
func (s *State) slowStart(a Ack) int {
	if first := s.Threshold == MaxWindow && a.Slow != nil; first {
		done := a.Slow.acked(a)
		s.grow(a.Slow.growth(a.Bytes, a.MSS))
		if done {
			s.Threshold = s.Window
		}
		return 0
	}
	room := int(s.Threshold) - int(s.Window)
	grow := min(a.Bytes, room)
	s.grow(min(grow, 2*a.MSS))
	return a.Bytes - grow
}

func (s *State) grow(n int) { s.Window = uint32(min(int(s.Window)+n, MaxWindow)) }

// remember keeps what Undo needs.
func (s *State) remember() {
	s.priorWindow, s.priorThreshold, s.priorMax = s.Window, s.Threshold, s.wMax
}

// restore takes back the last reduction, which remember preceded; once. A window that has grown larger since stays.
func (s *State) restore() {
	if s.priorWindow == 0 {
		return
	}
	s.Window, s.Threshold, s.wMax = max(s.Window, s.priorWindow), s.priorThreshold, s.priorMax
	s.priorWindow, s.epoch = 0, 0
}
