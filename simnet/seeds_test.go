package simnet

import (
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	oneSeed  = flag.Uint64("seed", 0, "run this seed only")
	numSeeds = flag.Uint64("seeds", 0, "how many seeds to run; 0 means 150, or 15 with -short or the race detector")
)

// again is how one seed is run again.
const again = "go test ./simnet -run '^TestSeeds$' -seed=%d"

// Every seed's world holds all invariants, and does the same when it is run again.
func TestSeeds(t *testing.T) {
	count := *numSeeds
	if count == 0 {
		if count = 150; testing.Short() || raceEnabled {
			count = 15
		}
	}
	first := uint64(1)
	if *oneSeed != 0 {
		first, count = *oneSeed, 1
	}
	var mu sync.Mutex
	var sum totals
	least := uint64(1 << 62)
	begin := time.Now()
	Explore(t, Trial[op]{First: first, Count: count, Generate: generate, Again: again, Run: func(seed uint64, ops []op) (uint64, error) {
		x, trace, err := play(seed, ops, plant{})
		mu.Lock()
		defer mu.Unlock()
		sum.add(&x)
		least = min(least, x.datagrams)
		return trace, err
	}})
	t.Logf("%d seeds twice in %v, at least %d datagrams each: %+v", count, time.Since(begin).Round(time.Millisecond), least, sum)
	require.GreaterOrEqual(t, least, uint64(10_000))
	require.Greater(t, worldTime, time.Minute)
	for name, n := range map[string]uint64{"received": sum.received, "refused": sum.refused, "blocked": sum.blocked, "kept": sum.kept,
		"stopped over their budget": sum.resumed, "duplicated": sum.duplicated, "reordered": sum.reordered, "corrupted": sum.corrupted,
		"shortened": sum.shortened, "dropped by hosts": sum.drops, "lost at cards": sum.rings, "waited": sum.waiting} {
		require.GreaterOrEqual(t, n, count/10, "too few datagrams were %s for the test to mean anything", name)
	}
	for c, n := range sum.lost {
		require.GreaterOrEqual(t, n, count/10, "too few datagrams were lost for %v", Cause(c))
	}
}

func (t *totals) add(x *totals) {
	for i := range t.lost {
		t.lost[i] += x.lost[i]
	}
	for _, p := range [][2]*uint64{{&t.datagrams, &x.datagrams}, {&t.received, &x.received}, {&t.refused, &x.refused},
		{&t.blocked, &x.blocked}, {&t.kept, &x.kept}, {&t.resumed, &x.resumed}, {&t.duplicated, &x.duplicated},
		{&t.reordered, &x.reordered}, {&t.corrupted, &x.corrupted}, {&t.shortened, &x.shortened}, {&t.rings, &x.rings},
		{&t.drops, &x.drops}, {&t.waiting, &x.waiting}} {
		*p[0] += *p[1]
	}
}

// The operations of a seed are what its number says, on every machine.
func TestGenerateIsFixed(t *testing.T) {
	h := uint64(offset)
	for _, o := range generate(1, randomStream(1, "operations")) {
		h = hashBytes(h, []byte(fmt.Sprint(o)))
	}
	again := uint64(offset)
	for _, o := range generate(1, randomStream(1, "operations")) {
		again = hashBytes(again, []byte(fmt.Sprint(o)))
	}
	require.Equal(t, h, again)
}
