package offload_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/ring/ringtest"
	streams "github.com/socketxtreme/socketxtreme/ring/transport/stream"
)

// What an idle connection may cost: bytes of heap for socket, flow, record and timer together, and the share by which forced collections may
// move the 99th percentile of an echo beside many of them.
const (
	idleBytes = 450
	idleMoves = 0.10
)

// TestIdleStreams accepts many connections that stay idle: 30,000, or 1,000,000 with SOCKETXTREME_LONG set. It fails when one costs more than
// idleBytes. The long form also fails when collections disturb an echo by more than a tenth more beside them than beside few.
func TestIdleStreams(t *testing.T) {
	n, long := 30_000, os.Getenv("SOCKETXTREME_LONG") != ""
	if long {
		n = 1_000_000
	}
	w := newSwarm(t, n, &streams.Options{})
	const first = 600 // what is made for the first of many is not counted to them
	w.open(first)
	payload := text(16)
	disturbance := func() float64 {
		return ringtest.Disturbance(t, long, fmt.Sprintf("%d connections", w.accepted), func() time.Duration { return w.echo(0, payload) })
	}
	few := disturbance()
	begin, before := time.Now(), heapBytes()
	w.open(n)
	each := (heapBytes() - before) / float64(n-first)
	t.Logf("%d idle connections in %v: %.0f bytes of heap each", n, time.Since(begin).Round(time.Millisecond), each)
	if !raceEnabled {
		w.LessOrEqual(each, float64(idleBytes), "bytes of heap for an idle connection")
	}
	many := disturbance()
	t.Logf("forced collections every %v move p99 by %+.0f %% beside %d connections, by %+.0f %% beside %d", ringtest.CollectEach, 100*(many-1), n, 100*(few-1), first)
	if long {
		w.LessOrEqual(many, max(1, few)+idleMoves, "what collections do to p99")
	}
	w.EqualValues(n, w.counter("tcp.connections"))
	w.Zero(w.resets)
}

func heapBytes() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// counter is a count of the ring's driver.
func (w *swarm) counter(name string) uint64 {
	for _, c := range w.ring.Stats().Driver {
		if c.Name == name {
			return c.Value
		}
	}
	w.FailNow("no counter " + name)
	return 0
}
