package shadow

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// When the kernel's side is looked at: turns of a simulated ring, each of which takes the given time and has a frame every so often.
func TestWhenShadowsAreDue(t *testing.T) {
	for _, test := range []struct {
		name        string
		turn        time.Duration
		frameEvery  int // turns; 0: none come
		found       int // sockets that each look finds ready
		from, turns int // the looks of these turns are counted
		most, least int
	}{
		{"every turn has a frame", time.Microsecond, 1, 0, 1000, 10_000, 101, 99},
		{"a frame every 8 turns: never 16 idle ones", 50 * time.Nanosecond, 8, 0, 8000, 80_000, 101, 99},
		// 40,000 turns of 50 ns are 2 ms: 40 looks by time, and 10 of every hundredth of 1,000 turns with frames.
		{"a quick exchange", 50 * time.Nanosecond, 40, 0, 8000, 40_000, 50, 38},
		{"a quick exchange, and something at every look", 50 * time.Nanosecond, 64, 1, 8000, 64_000, 4000, 2900},
		{"turns that take long", 20 * time.Microsecond, 100, 0, 8000, 8000, 480, 400},
		{"silence", 50 * time.Nanosecond, 0, 0, 20_000, 16_000, 1000, 1000},
		{"the start of silence", 50 * time.Nanosecond, 0, 0, 8000, 8000, 9, 7},
		{"a clock that stands", 0, 0, 0, 20_000, 16_000, 1000, 1000},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := &List{lookEvery: 100, watched: 1}
			looks, idle, now, read := 0, 0, clock.Time(0), clock.Time(0)
			for i := range test.from + test.turns {
				turn := uint64(i + 1)
				now += clock.Time(test.turn)
				if turn%idleEvery == 0 { // the ring reads the clock
					read = now
				}
				if l.IsDue(turn, idle, false, read) {
					l.noteLook(test.found, read)
					if i >= test.from {
						looks++
					}
				}
				idle++
				if test.frameEvery > 0 && i%test.frameEvery == 0 {
					idle = 0
				}
			}
			require.LessOrEqual(t, looks, test.most)
			require.GreaterOrEqual(t, looks, test.least)
			l.LookSoon() // the ring has slept, or a look has left something
			require.True(t, l.IsDue(1, 0, false, read))
			l.watched = 0
			require.False(t, l.IsDue(1, 0, false, read), "no shadows")
		})
	}
}
