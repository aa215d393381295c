package wheel

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// crowd fills a wheel with timers spread over a minute, as a server's idle connections are, in random memory order.
func crowd(n int) (*Wheel, []Timer) {
	random := rand.New(rand.NewPCG(1, 1))
	w := New(0, 0)
	w.Grow(n + 1)
	timers := make([]Timer, n)
	for i := range timers {
		timers[i] = w.Start(clock.Time(random.Int64N(int64(60_000*ms))), uint64(i))
	}
	random.Shuffle(n, func(i, j int) { timers[i], timers[j] = timers[j], timers[i] })
	return w, timers
}

func crowds(b *testing.B, f func(b *testing.B, w *Wheel, timers []Timer)) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("timers=%d", n), func(b *testing.B) {
			w, timers := crowd(n)
			b.ReportAllocs()
			f(b, w, timers)
		})
	}
}

func BenchmarkStartStop(b *testing.B) {
	crowds(b, func(b *testing.B, w *Wheel, timers []Timer) {
		for i := 0; b.Loop(); i++ {
			w.Stop(w.Start(clock.Time(i%60_000)*ms, 0))
		}
	})
}

func BenchmarkResetLater(b *testing.B) {
	crowds(b, func(b *testing.B, w *Wheel, timers []Timer) {
		i, at := 0, 60_000*ms
		for b.Loop() {
			if i == len(timers) {
				i = 0
			}
			at++
			w.Reset(timers[i], at)
			i++
		}
	})
}

// A deadline moved earlier, the Reset that has to move the timer; the rest is BenchmarkStartStop.
func BenchmarkStartResetEarlierStop(b *testing.B) {
	crowds(b, func(b *testing.B, w *Wheel, timers []Timer) {
		for i := 0; b.Loop(); i++ {
			t := w.Start(hour, 0)
			w.Reset(t, clock.Time(i%60_000)*ms)
			w.Stop(t)
		}
	})
}

// The common turn: time moved on a little, nothing is due.
func BenchmarkExpireNothing(b *testing.B) {
	crowds(b, func(b *testing.B, w *Wheel, timers []Timer) {
		for _, t := range timers {
			w.Reset(t, hour)
		}
		now := clock.Time(0)
		for more := true; more; {
			_, more = w.Expire(hour/2, 1000, func(uint64) {})
		}
		f := func(uint64) {}
		for b.Loop() {
			now += 10
			w.Expire(hour/2+now, 64, f)
		}
	})
}

// Timers that do fire and are started again, by a loop that sleeps until Next: carried down the levels, fired, started.
func BenchmarkFireStart(b *testing.B) {
	crowds(b, func(b *testing.B, w *Wheel, timers []Timer) {
		now := clock.Time(0)
		f := func(data uint64) { w.Start(now+60_000*ms, data) }
		for b.Loop() {
			for n := 0; n == 0; {
				next, _ := w.Next()
				now = max(now, next)
				n, _ = w.Expire(now, 1, f)
			}
		}
	})
}
