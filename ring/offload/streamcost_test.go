package offload_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	streams "github.com/socketxtreme/socketxtreme/ring/transport/stream"
)

// crossing measures exchanges of random clients in bursts: 64 bytes in, the echo, its acknowledgement. What the clients do is not counted.
type crossing struct {
	w       *swarm
	random  *rand.Rand
	burst   [64]int
	payload []byte
}

func newCrossing(t testing.TB, n int) *crossing {
	if n < len(crossing{}.burst) {
		t.Fatalf("%d clients, and a burst has %d different ones", n, len(crossing{}.burst))
	}
	x := &crossing{w: newSwarm(t, n, &streams.Options{}), random: rand.New(rand.NewPCG(1, uint64(n))), payload: text(64)}
	x.w.open(n)
	x.w.holds = true
	return x
}

// exchange is one burst. It returns what the ring took for it.
func (x *crossing) exchange() (spent time.Duration) {
	w := x.w
	for i := range x.burst {
		x.burst[i] = x.random.IntN(len(w.clients))
		for slices.Contains(x.burst[:i], x.burst[i]) {
			x.burst[i] = x.random.IntN(len(w.clients))
		}
		w.data(x.burst[i], x.payload)
	}
	w.flush()
	want := w.got + len(x.burst)*len(x.payload)
	for end := time.Now().Add(patience); w.got < want; {
		start := time.Now()
		w.poll()
		if err := w.ring.Flush(); err != nil {
			w.t.Fatal(err)
		}
		spent += time.Since(start)
		w.receive()
		if time.Now().After(end) {
			w.FailNow("no echo", "%v", w.ring.Stats().Driver)
		}
	}
	for _, i := range x.burst {
		w.acknowledge(i)
	}
	w.flush()
	start := time.Now()
	w.poll()
	return spent + time.Since(start)
}

// packetsEach are the packets of an exchange: the data, its echo, and the acknowledgement.
const packetsEach = 3

// TestCostOfManyStreams compares what a packet costs with many connections to what it costs with few: spells of worlds of different sizes
// alternate, and the medians count. With SOCKETXTREME_LONG set there are 1,000, 100,000 and 1,000,000, and the differences are bounded
// (docs/tcp-proof.md has what they were, and the goals); otherwise it is shown that it works.
func TestCostOfManyStreams(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine, and its time: the race detector finds nothing in the first and spoils the second")
	}
	sizes, bounds, spells := []int{500, 5000}, []time.Duration{0, 0}, 2
	if os.Getenv("SOCKETXTREME_LONG") != "" {
		sizes, bounds, spells = []int{1000, 100_000, 1_000_000}, []time.Duration{0, 250, 400}, 100
	}
	const spell = 200 // bursts
	var worlds []*crossing
	for _, n := range sizes {
		worlds = append(worlds, newCrossing(t, n))
	}
	costs := make([][]time.Duration, len(sizes))
	for range spells {
		for k, x := range worlds {
			for i := range spell {
				if spent := x.exchange(); i >= spell/4 { // caches are as this world leaves them
					costs[k] = append(costs[k], spent)
				}
			}
		}
	}
	var each []time.Duration
	for k, list := range costs {
		slices.Sort(list)
		each = append(each, list[len(list)/2]/time.Duration(len(worlds[k].burst)*packetsEach))
		t.Logf("%d connections: %d ns a packet, %d ns an exchange; over the smallest: %d ns a packet", sizes[k], each[k], packetsEach*each[k], each[k]-each[0])
	}
	for k, bound := range bounds {
		if bound > 0 {
			worlds[k].w.LessOrEqual(each[k]-each[0], bound, "nanoseconds a packet with %d connections, beyond those with %d", sizes[k], sizes[0])
		}
	}
}
