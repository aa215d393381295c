package extraapi_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	extraapi "github.com/socketxtreme/socketxtreme/extra_api"
	"github.com/socketxtreme/socketxtreme/ring"
)

// evict is larger than the caches that matter.
var evict = make([]byte, 48<<20)

// evictedSends times n sends after the caches were evicted, and n that a warm send preceded, in random order, in nanoseconds.
func evictedSends(w *world, n int) (cold, warm []float64) {
	s, p := w.udp(), w.peer()
	to := p.addr()
	b := make([]byte, 64)
	random := rand.New(rand.NewPCG(1, 2))
	send := func() {
		_, err := s.SendTo(b, to)
		w.NoError(err)
		w.NoError(s.Ring().Flush())
		p.read()
	}
	send()
	for len(cold) < n || len(warm) < n {
		for i := 0; i < len(evict); i += 64 {
			evict[i]++
		}
		first := random.IntN(2) == 0 && len(warm) < n || len(cold) == n
		if first {
			w.NoError(extraapi.DummySend(s, b, to))
		}
		begin := time.Now()
		_, err := s.SendTo(b, to)
		_ = s.Ring().Flush()
		took := float64(time.Since(begin))
		w.NoError(err)
		p.read()
		if first {
			warm = append(warm, took)
		} else {
			cold = append(cold, took)
		}
	}
	return cold, warm
}

// interval is the ratio of two medians and its 95 % interval, by bootstrap.
func interval(a, b []float64) (ratio, low, high float64) {
	median := func(x []float64) float64 {
		x = slices.Clone(x)
		slices.Sort(x)
		return x[len(x)/2]
	}
	random := rand.New(rand.NewPCG(3, 4))
	draw := func(x []float64) []float64 {
		y := make([]float64, len(x))
		for i := range y {
			y[i] = x[random.IntN(len(x))]
		}
		return y
	}
	ratios := make([]float64, 1000)
	for i := range ratios {
		ratios[i] = median(draw(a)) / median(draw(b))
	}
	slices.Sort(ratios)
	return median(a) / median(b), ratios[25], ratios[974]
}

// BenchmarkWarmSend is a send after a warm one against a send with cold caches: the ratio of the medians, with its interval.
func BenchmarkWarmSend(b *testing.B) {
	for _, kind := range everyKind {
		b.Run(kind, func(b *testing.B) {
			cold, warm := evictedSends(newWorld(b, kind), max(b.N, 30))
			ratio, low, high := interval(warm, cold)
			b.ReportMetric(ratio, "warm/cold")
			b.ReportMetric(low, "low")
			b.ReportMetric(high, "high")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func TestEvictedSends(t *testing.T) {
	onEach(t, everyKind, func(w *world) {
		cold, warm := evictedSends(w, 3)
		w.Len(cold, 3)
		w.Len(warm, 3)
		ratio, low, high := interval(warm, cold)
		w.Positive(low)
		w.LessOrEqual(low, ratio)
		w.GreaterOrEqual(high, ratio)
	})
}

// BenchmarkCallback is a datagram through a callback that drops it, from the link to the free list.
func BenchmarkCallback(b *testing.B) {
	w := newWorld(b, "offload")
	s := w.udp(w.with(drop))
	p := w.peer()
	done := make([]ring.Completion, 64)
	payload := make([]byte, 64)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = p.s.SendTo(payload, s.LocalAddr())
		_, _ = p.s.Ring().Poll(done)
		_, _ = s.Ring().Poll(done)
	}
}
