package congestion

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

const mss = 1000

func started(window, threshold uint32) *State { return &State{Window: window, Threshold: threshold} }

// RFC 6928 section 2.
func TestInitialWindow(t *testing.T) {
	for size, want := range map[int]int{1460: 14600, 536: 5360, 9000: 18000, 48: 480} {
		require.Equal(t, want, InitialWindow(size))
	}
}

// RFC 5681 section 3.1: slow start doubles the window each round trip.
func TestSlowStart(t *testing.T) {
	for _, c := range []Control{Cubic{}, NewReno{}} {
		s := started(10*mss, 200*mss)
		for range 10 {
			c.Acked(s, Ack{Now: 1, Bytes: mss, MSS: mss})
		}
		require.EqualValues(t, 20*mss, s.Window)
		c.Acked(s, Ack{Now: 1, Bytes: 50 * mss, MSS: mss})
		require.EqualValues(t, 22*mss, s.Window, "one acknowledgement counts for two segments at most")
	}
}

// A round of HyStart++: a window of segments, each acknowledged on its own after the same time.
func (s *State) round(c Control, h *HyStart, seq *uint32, rtt clock.Duration) {
	first, last := *seq, *seq+s.Window
	for *seq = first; int32(*seq-last) < 0; {
		*seq += mss
		c.Acked(s, Ack{Now: 1, Bytes: mss, MSS: mss, Slow: h, Sample: rtt, Acked: *seq, Next: *seq + s.Window})
	}
}

// RFC 9406: a round trip that has grown by an eighth slows growth down to a quarter, and ends slow start after five rounds; one that was
// short again does not.
func TestHyStart(t *testing.T) {
	for _, c := range []Control{Cubic{}, NewReno{}} {
		s, h, seq := started(10*mss, MaxWindow), &HyStart{}, uint32(0xfffffff0)
		s.round(c, h, &seq, 100*clock.Millisecond)
		s.round(c, h, &seq, 105*clock.Millisecond)
		require.InDelta(t, 40*mss, s.Window, mss, "an eighth of 100 ms is more than 5")
		s.round(c, h, &seq, 120*clock.Millisecond)
		grown := s.Window
		require.Less(t, grown, uint32(60*mss), "seven acknowledgements, and then a quarter")
		s.round(c, h, &seq, 104*clock.Millisecond) // it was no queue
		require.Greater(t, s.Window, grown*3/2)
		require.EqualValues(t, MaxWindow, s.Threshold)
		s.round(c, h, &seq, 130*clock.Millisecond)
		for range 7 {
			s.round(c, h, &seq, 131*clock.Millisecond)
		}
		require.Less(t, s.Threshold, uint32(MaxWindow))
		require.False(t, s.Threshold > s.Window)
	}
}

// RFC 9406 section 4.2: one acknowledgement counts for eight segments at most.
func TestHyStartGrowth(t *testing.T) {
	s := started(10*mss, MaxWindow)
	Cubic{}.Acked(s, Ack{Now: 1, Bytes: 50 * mss, MSS: mss, Slow: &HyStart{}})
	require.EqualValues(t, 18*mss, s.Window)
}

// RFC 5681 section 3.1: a segment for each window.
func TestNewRenoAvoidsCongestion(t *testing.T) {
	s := started(10*mss, 10*mss)
	for range 10 {
		NewReno{}.Acked(s, Ack{Bytes: mss, MSS: mss})
	}
	require.EqualValues(t, 11*mss, s.Window)
	NewReno{}.Reduce(s, 8*mss, mss)
	require.EqualValues(t, 4*mss, s.Threshold, "half of what was in flight")
	NewReno{}.Reduce(s, 1*mss, mss)
	require.EqualValues(t, 2*mss, s.Threshold, "never below two segments")
}

// RFC 9438 section 4.2: after a reduction to 0.7 the window is concave, reaches W_max after K seconds, then convex.
func TestCubicCurve(t *testing.T) {
	s := started(100*mss, 100*mss)
	s.wMax = 50 * mss
	Cubic{}.Reduce(s, 100*mss, mss)
	require.EqualValues(t, 70*mss, s.Threshold)
	s.Window = s.Threshold
	const rtt = 100 * clock.Millisecond
	at := clock.Time(clock.Second)
	var seen []uint32
	for range 80 { // 8 s: K is the cube root of 30/0.4, 4.2 s
		for acked := uint32(0); acked < s.Window; acked += mss {
			Cubic{}.Acked(s, Ack{Now: at, Bytes: mss, MSS: mss, RTT: rtt})
		}
		at = at.Add(rtt)
		seen = append(seen, s.Window)
	}
	require.InDelta(t, 100*mss, seen[42], 4*mss, "after K")
	require.Less(t, seen[42]-seen[32], seen[10]-seen[0], "flat in the middle")
	require.Greater(t, seen[79], uint32(110*mss), "beyond it, it searches")
	for i := 1; i < len(seen); i++ {
		require.LessOrEqual(t, seen[i-1], seen[i])
	}
}

// RFC 9438 section 4.7: a flow that did not reach its former window leaves room for others.
func TestCubicConvergesFast(t *testing.T) {
	s := started(50*mss, 50*mss)
	s.wMax = 100 * mss
	Cubic{}.Reduce(s, 50*mss, mss)
	require.EqualValues(t, 50*mss*17/20, s.wMax)
	require.EqualValues(t, 35*mss, s.Threshold)
}

// RFC 9438 section 4.3: with short round trips it is not slower than Reno.
func TestCubicIsFriendlyToReno(t *testing.T) {
	grow := func(c Control) uint32 {
		s := started(20*mss, 20*mss)
		c.Reduce(s, 20*mss, mss)
		s.Window = s.Threshold
		at := clock.Time(clock.Second)
		for range 1000 {
			for acked := uint32(0); acked < s.Window; acked += mss {
				c.Acked(s, Ack{Now: at, Bytes: mss, MSS: mss, RTT: clock.Millisecond})
			}
			at = at.Add(clock.Millisecond)
		}
		return s.Window
	}
	require.Greater(t, grow(Cubic{}), grow(NewReno{})/2)
}

// RFC 4015, RFC 9438 section 4.9.
func TestUndo(t *testing.T) {
	for _, c := range []Control{Cubic{}, NewReno{}} {
		s := started(40*mss, 100*mss)
		s.wMax = 30 * mss
		before := *s
		c.Reduce(s, 40*mss, mss)
		s.Window = mss
		c.Undo(s)
		require.Equal(t, []uint32{before.Window, before.Threshold, before.wMax}, []uint32{s.Window, s.Threshold, s.wMax})
		c.Undo(s)
		require.Equal(t, before.Window, s.Window, "once")
	}
}

func TestNoneKeepsTheWindowOpen(t *testing.T) {
	s := started(10*mss, MaxWindow)
	None{}.Acked(s, Ack{})
	None{}.Reduce(s, 5, mss)
	None{}.Undo(s)
	require.EqualValues(t, MaxWindow, s.Window)
}

func TestCubeRoot(t *testing.T) {
	for _, n := range []uint64{0, 1, 7, 8, 9, 26, 27, 1e9, 75e9, 1e18} {
		r := uint64(cubeRoot(n))
		require.LessOrEqual(t, r*r*r, n)
		if r < 1<<21-1 {
			require.Greater(t, (r+1)*(r+1)*(r+1), n)
		}
	}
}

// No window leaves its bounds, whatever comes.
func FuzzControls(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Fuzz(func(t *testing.T, ops []byte) {
		for _, c := range Controls {
			var s State
			s.Init(mss)
			at := clock.Time(1)
			for i, op := range ops {
				at = at.Add(clock.Duration(op) * clock.Millisecond << (i % 8))
				switch op % 4 {
				case 0:
					c.Reduce(&s, int(op)*mss, mss)
					s.Window = s.Threshold
				case 1:
					c.Undo(&s)
				default:
					c.Acked(&s, Ack{Now: at, Bytes: int(op) * mss, MSS: mss, RTT: clock.Duration(op) * clock.Millisecond})
				}
				require.GreaterOrEqual(t, s.Window, uint32(mss))
				require.LessOrEqual(t, s.Window, uint32(MaxWindow))
			}
		}
	})
}
