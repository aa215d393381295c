package tcptest

import (
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/simnet"
	"github.com/socketxtreme/socketxtreme/tcp"
)

var (
	oneSeed  = flag.Uint64("seed", 0, "run this seed only; with -v, print its packets. With -seeds: the first of so many")
	shrink   = flag.Bool("shrink", true, "make a failing seed's list of operations shorter")
	numSeeds = flag.Uint64("seeds", 0, "how many seeds to run; 0 means 100, 20 with -short, 4 with the race detector")
)

const again = "go test ./tcp/tcptest -run '^TestSeeds$' -seed=%d"

// Every seed's world holds all invariants. The first ones are run twice, and do the same.
func TestSeeds(t *testing.T) {
	count := *numSeeds
	if count == 0 {
		switch count = 100; {
		case raceEnabled:
			count = 4
		case testing.Short():
			count = 20
		}
	}
	first := uint64(1)
	if *oneSeed != 0 {
		if first = *oneSeed; *numSeeds == 0 {
			count = 1
		}
		if printing = testing.Verbose() && count == 1; printing {
			t.Cleanup(func() { fmt.Print(printed) })
		}
	}
	var mu sync.Mutex
	var sum totals
	sum.drops = map[wire.Drop]int{}
	trial := simnet.Trial[op]{First: first, Count: count, Once: true, Generate: generate, Again: again, Run: func(seed uint64, ops []op) (uint64, error) {
		x, trace, err := play(seed, ops, plant{})
		mu.Lock()
		defer mu.Unlock()
		sum.add(&x)
		return trace, err
	}}
	if !*shrink {
		trial.Shrinks = -1
	}
	start := time.Now()
	simnet.Explore(t, trial)
	t.Logf("%d seeds in %v", count, time.Since(start).Round(time.Millisecond))
	t.Log(sum.String())
	if count >= 1500 {
		sum.check(t)
	}
	trial.Count, trial.Once = min(count, 20), false
	simnet.Explore(t, trial)
}

// check requires that the seeds have met everything.
func (t *totals) check(tb testing.TB) {
	for cause, n := range t.lost {
		require.GreaterOrEqual(tb, n, 50, "seeds in which packets were lost for %v", simnet.Cause(cause))
	}
	for v, n := range t.verbs {
		require.GreaterOrEqual(tb, n, 50, "seeds with operation %d", v)
	}
	for name, n := range map[string]int{"duplicated": t.duplicated, "reordered": t.reordered, "corrupted": t.corrupted, "shortened": t.shortened,
		"marked": t.marked, "refused with an ICMP error": t.refused, "discarded beyond gaps": t.reneged} {
		require.GreaterOrEqual(tb, n, 50, "seeds in which packets were %s", name)
	}
	for _, m := range stateTable {
		require.GreaterOrEqual(tb, t.moves[m[0]][m[1]], 50, "seeds in which a connection moves from %v to %v", m[0], m[1])
	}
}

// stateTable is each move of the table in package tcp. From TIME-WAIT on the record is what the application still has.
var stateTable = [][2]tcp.State{{tcp.Closed, tcp.SynSent}, {tcp.Closed, tcp.Established},
	{tcp.SynSent, tcp.Closed}, {tcp.SynSent, tcp.SynReceived}, {tcp.SynSent, tcp.Established},
	{tcp.SynReceived, tcp.Closed}, {tcp.SynReceived, tcp.Established}, {tcp.SynReceived, tcp.FinWait1},
	{tcp.Established, tcp.Closed}, {tcp.Established, tcp.FinWait1}, {tcp.Established, tcp.CloseWait},
	{tcp.FinWait1, tcp.Closed}, {tcp.FinWait1, tcp.FinWait2}, {tcp.FinWait1, tcp.Closing}, {tcp.FinWait1, tcp.TimeWait},
	{tcp.FinWait2, tcp.Closed}, {tcp.FinWait2, tcp.TimeWait}, {tcp.CloseWait, tcp.Closed}, {tcp.CloseWait, tcp.LastAck},
	{tcp.Closing, tcp.Closed}, {tcp.Closing, tcp.TimeWait}, {tcp.LastAck, tcp.Closed}, {tcp.TimeWait, tcp.Closed}}

// add counts the seeds in which something occurs, and sums up what is a quantity.
func (t *totals) add(x *totals) {
	for _, p := range [][2]*int{{&t.started, &x.started}, {&t.bytes, &x.bytes}, {&t.aborted, &x.aborted}, {&t.crashes, &x.crashes},
		{&t.retransmitted, &x.retransmitted}, {&t.warnings, &x.warnings}} {
		*p[0] += *p[1]
	}
	occurs := func(sum *int, n int) {
		if n > 0 {
			*sum++
		}
	}
	for _, p := range [][2]*int{{&t.duplicated, &x.duplicated}, {&t.reordered, &x.reordered}, {&t.corrupted, &x.corrupted}, {&t.shortened, &x.shortened},
		{&t.marked, &x.marked}, {&t.refused, &x.refused}, {&t.reneged, &x.reneged}} {
		occurs(p[0], *p[1])
	}
	for i := range t.moves {
		for j := range t.moves[i] {
			occurs(&t.moves[i][j], x.moves[i][j])
		}
	}
	for i := range t.reasons {
		occurs(&t.reasons[i], x.reasons[i])
	}
	for i := range t.lost {
		occurs(&t.lost[i], x.lost[i])
	}
	for i := range t.verbs {
		occurs(&t.verbs[i], x.verbs[i])
	}
	for d, n := range x.drops {
		t.drops[d] += n
	}
}

func (t *totals) String() string {
	s := fmt.Sprintf("%d flows, %d bytes, %d aborts, %d crashes, %d segments sent again, %d warnings\n", t.started, t.bytes, t.aborted, t.crashes,
		t.retransmitted, t.warnings)
	s += "seeds in which it occurs:"
	for i, n := range t.lost {
		s += fmt.Sprintf(" %v %d", simnet.Cause(i), n)
	}
	s += fmt.Sprintf(" duplicated %d reordered %d corrupted %d shortened %d marked %d refused %d reneged %d; operations %v\n", t.duplicated, t.reordered, t.corrupted,
		t.shortened, t.marked, t.refused, t.reneged, t.verbs)
	for i := range t.moves {
		for j, n := range t.moves[i] {
			if n > 0 {
				s += fmt.Sprintf("%v to %v %d, ", tcp.State(i), tcp.State(j), n)
			}
		}
	}
	s += "\nfailures"
	for i, n := range t.reasons {
		if n > 0 {
			s += fmt.Sprintf(" %v %d", tcp.Reason(i), n)
		}
	}
	s += "; dropped"
	for d := range 256 {
		if n := t.drops[wire.Drop(d)]; n > 0 {
			s += fmt.Sprintf(" %v %d", wire.Drop(d), n)
		}
	}
	return s
}
