package simnet

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Trial is a property that is to hold for every seed: what is done in a world, as a list of operations drawn from the seed, and a run
// that says whether it went well. Operations must be such that any of them can be left out: what they refer to may not be there.
type Trial[Op any] struct {
	First, Count uint64 // the seeds First to First+Count-1; First 0 means 1
	Workers      int    // seeds that run at the same time; 0 means one a processor
	Generate     func(seed uint64, r *rand.Rand) []Op
	// Run makes a world from the seed, does the operations and returns the trace's hash, and what went wrong.
	Run func(seed uint64, ops []Op) (trace uint64, err error)
	// Once leaves out the second run of each seed, which must have the same trace.
	Once bool
	// Shrinks bounds the runs that a failure is made smaller with; 0 means 400, below 0 none.
	Shrinks int
	// Again is the command that runs one seed again, with %d for the seed; empty: "SIMNET_SEED=%d go test -run '^Name$'".
	Again string
}

// Failure is a seed for which a trial failed.
type Failure[Op any] struct {
	Seed uint64
	Err  error // of the shortest list that was found
	Ops  []Op  // that list
	From int   // how many operations there were at first
}

// Error is the failure with its operations, one a line.
func (f *Failure[Op]) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %v\n%d of %d operations are enough:", f.Seed, f.Err, len(f.Ops), f.From)
	for i, op := range f.Ops {
		if i == 100 {
			fmt.Fprintf(&b, "\n\t… and %d more", len(f.Ops)-i)
			break
		}
		fmt.Fprintf(&b, "\n\t%v", op)
	}
	return b.String()
}

// Unwrap returns the error of the run.
func (f *Failure[Op]) Unwrap() error { return f.Err }

// Search runs the trial for its seeds. It returns the failure with the lowest seed, with its operations made fewer, or nil; and how many
// seeds were run.
func (tr Trial[Op]) Search() (*Failure[Op], int) {
	if tr.First == 0 {
		tr.First = 1
	}
	if tr.Workers <= 0 {
		tr.Workers = runtime.GOMAXPROCS(0)
	}
	var (
		mu     sync.Mutex
		next   = tr.First
		end    = tr.First + tr.Count
		worst  *Failure[Op]
		ran    int
		finish sync.WaitGroup
	)
	for range tr.Workers {
		finish.Go(func() {
			for {
				mu.Lock()
				seed := next
				if worst != nil || seed == end {
					mu.Unlock()
					return
				}
				next++
				ran++
				mu.Unlock()
				if f := tr.trySeed(seed); f != nil {
					mu.Lock()
					if worst == nil || f.Seed < worst.Seed {
						worst = f
					}
					mu.Unlock()
				}
			}
		})
	}
	finish.Wait()
	if worst != nil {
		tr.shrink(worst)
	}
	return worst, ran
}

// trySeed runs one seed and returns its failure with all operations, or nil.
func (tr Trial[Op]) trySeed(seed uint64) *Failure[Op] {
	ops := tr.Generate(seed, randomStream(seed, "operations"))
	if err := tr.runOnce(seed, ops); err != nil {
		return &Failure[Op]{Seed: seed, Err: err, Ops: ops, From: len(ops)}
	}
	return nil
}

// runOnce runs the operations with a seed: once, or, if the trial asks for that, twice, with an error if the traces differ.
func (tr Trial[Op]) runOnce(seed uint64, ops []Op) error {
	first, err := tr.Run(seed, ops)
	if err != nil || tr.Once {
		return err
	}
	second, err := tr.Run(seed, ops)
	switch {
	case err != nil:
		return fmt.Errorf("simnet: repeat: the second run failed, the first did not: %w", err)
	case first != second:
		return fmt.Errorf("simnet: repeat: the traces of two runs are %#x and %#x", first, second)
	}
	return nil
}

// shrink removes operations from a failure as long as it still fails, with at most Shrinks runs.
func (tr Trial[Op]) shrink(f *Failure[Op]) {
	limit := tr.Shrinks
	if limit == 0 {
		limit = 400
	}
	f.Ops = Shrink(f.Ops, func(ops []Op) bool {
		err := tr.runOnce(f.Seed, ops)
		if err != nil {
			f.Err = err
		}
		return err != nil
	}, limit)
}

// Explore is Search for a test: it fails with the seed, the smallest list of operations, and how to run it again. With the environment
// variable SIMNET_SEED set, it runs that seed only.
func Explore[Op any](t testing.TB, tr Trial[Op]) {
	t.Helper()
	if text := os.Getenv("SIMNET_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil || seed == 0 {
			t.Fatalf("simnet: SIMNET_SEED is %q, must be a number above 0", text)
		}
		tr.First, tr.Count = seed, 1
	}
	if tr.Again == "" {
		tr.Again = "SIMNET_SEED=%d go test -run '^" + t.Name() + "$'"
	}
	if f, _ := tr.Search(); f != nil {
		t.Fatalf("%v\nagain: "+tr.Again, f, f.Seed)
	}
}
