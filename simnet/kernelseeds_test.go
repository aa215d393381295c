package simnet

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every seed's machine holds all invariants, and does the same when it is run again.
func TestKernelSeeds(t *testing.T) {
	count := *numSeeds
	if count == 0 {
		if count = 50; testing.Short() || raceEnabled {
			count = 5
		}
	}
	first := uint64(1)
	if *oneSeed != 0 {
		first, count = *oneSeed, 1
	}
	var mu sync.Mutex
	var sum ktotals
	begin := time.Now()
	Explore(t, Trial[kop]{First: first, Count: count, Generate: generateKernel, Again: "go test ./simnet -run '^TestKernelSeeds$' -seed=%d",
		Run: func(seed uint64, ops []kop) (uint64, error) {
			x, trace, err := playKernel(seed, ops, kplant{})
			mu.Lock()
			defer mu.Unlock()
			sum.add(&x)
			return trace, err
		}})
	t.Logf("%d seeds twice in %v: %+v", count, time.Since(begin).Round(time.Millisecond), sum)
	if count < 50 {
		return
	}
	for name, n := range map[string]uint64{"received by rings": sum.byRing / 100, "received by kernels": sum.byKernel / 10, "path events": sum.paths / 10,
		"frames for interfaces that were down": sum.down / 10, "frames on queues without a ring": sum.strayed, "sent": sum.sent / 100,
		"received by other programs": sum.byOthers} {
		require.GreaterOrEqual(t, n, count, "too few %s for the test to mean anything", name)
	}
}

// A datagram that waits at the queue of a ring that stands still is for the socket that has its port when the ring goes on.
func TestAKernelSeedThatWasFound(t *testing.T) {
	_, _, err := playKernel(394, generateKernel(394, randomStream(394, "operations")), kplant{})
	require.NoError(t, err)
}

func (t *ktotals) add(x *ktotals) {
	for _, p := range [][2]*uint64{{&t.byRing, &x.byRing}, {&t.byKernel, &x.byKernel}, {&t.paths, &x.paths}, {&t.down, &x.down},
		{&t.overflow, &x.overflow}, {&t.strayed, &x.strayed}, {&t.sent, &x.sent}, {&t.byOthers, &x.byOthers}, {&t.missing, &x.missing}} {
		*p[0] += *p[1]
	}
}
