package hoststat

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Collections tells of the garbage collections of this process. One goroutine at a time; the zero value is ready.
type Collections struct {
	samples []metrics.Sample
	last    debug.GCStats
}

// CollectionCounts are what there was of collections so far.
type CollectionCounts struct {
	Pauses uint64 // how often they have stopped all goroutines: twice for each as a rule
	Cycles uint64 // that have ended
	Forced uint64 // of those, asked for by the program: runtime.GC, debug.FreeOSMemory
}

// Read returns the counts of now.
func (c *Collections) Read() (n CollectionCounts) {
	if c.samples == nil {
		c.samples = []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}, {Name: "/gc/cycles/total:gc-cycles"}, {Name: "/gc/cycles/forced:gc-cycles"}}
	}
	metrics.Read(c.samples)
	if c.samples[0].Value.Kind() == metrics.KindFloat64Histogram {
		for _, pauses := range c.samples[0].Value.Float64Histogram().Counts {
			n.Pauses += pauses
		}
	}
	number := func(i int) uint64 {
		if c.samples[i].Value.Kind() != metrics.KindUint64 {
			return 0
		}
		return c.samples[i].Value.Uint64()
	}
	n.Cycles, n.Forced = number(1), number(2)
	return n
}

// Stopped is how long those of the last 256 collections that ended between two times have stopped all goroutines. A collection does so at its
// begin and at its end: the first pause of one that began before from is counted, too.
func (c *Collections) Stopped(from, to time.Time) (d time.Duration) {
	debug.ReadGCStats(&c.last)
	for i, end := range c.last.PauseEnd { // the newest is the first one
		if end.Before(from) {
			break
		}
		if !end.After(to) {
			d += c.last.Pause[i]
		}
	}
	return d
}
