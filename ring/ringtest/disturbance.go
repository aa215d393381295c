package ringtest

import (
	"runtime"
	"slices"
	"testing"
	"time"
)

// CollectEach is how often Disturbance forces a garbage collection: 20 Hz.
const CollectEach = 50 * time.Millisecond

// Disturbance is by what forced collections multiply the 99th percentile of the time that echo returns: rounds with and without alternate, and
// the median of their ratios counts. In the short form it only shows that the echo works meanwhile. beside names what is there in the log.
func Disturbance(t testing.TB, long bool, beside string, echo func() time.Duration) float64 {
	t.Helper()
	rounds, length := 3, 50*time.Millisecond
	if long {
		rounds, length = 21, 300*time.Millisecond
	}
	all := make([]time.Duration, 0, 2_000_000)
	p99 := func() time.Duration {
		all = all[:0]
		for end := time.Now().Add(length); time.Now().Before(end); {
			all = append(all, echo())
		}
		slices.Sort(all)
		return all[len(all)*99/100]
	}
	p99()
	var ratios []float64
	var plain, collected []time.Duration
	for range rounds {
		a := p99()
		stop := collectAllTheTime()
		b := p99()
		stop()
		plain, collected = append(plain, a), append(collected, b)
		ratios = append(ratios, float64(b)/float64(a))
	}
	slices.Sort(ratios)
	slices.Sort(plain)
	slices.Sort(collected)
	t.Logf("p99 of an echo beside %s: %v, with collections %v (medians of %d rounds)", beside, plain[rounds/2], collected[rounds/2], rounds)
	return ratios[rounds/2]
}

// collectAllTheTime forces collections on a goroutine of its own until the function is called.
func collectAllTheTime() (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(CollectEach)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				runtime.GC()
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}
