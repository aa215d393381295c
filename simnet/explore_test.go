package simnet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShrink(t *testing.T) {
	list := make([]int, 1000)
	for i := range list {
		list[i] = i
	}
	for name, want := range map[string][]int{"one": {500}, "far apart": {3, 997}, "neighbours": {511, 512},
		"many": {1, 2, 300, 301, 800, 999}} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			got := Shrink(list, func(l []int) bool {
				runs++
				for _, x := range want {
					if !slices.Contains(l, x) {
						return false
					}
				}
				return true
			}, 1000)
			require.Equal(t, want, got)
			require.Less(t, runs, 400)
		})
	}
	require.Equal(t, list, Shrink(list, func([]int) bool { return false }, 1000))
	require.Len(t, Shrink(list, func([]int) bool { return true }, 3), 125, "the limit holds")
}

func TestSearch(t *testing.T) {
	bad := errors.New("a 7 before a 9")
	trial := Trial[int]{Count: 1000, Generate: func(_ uint64, r *rand.Rand) (ops []int) {
		for range 50 {
			ops = append(ops, r.IntN(60))
		}
		return ops
	}, Run: func(seed uint64, ops []int) (uint64, error) {
		if i := slices.Index(ops, 7); i >= 0 && slices.Contains(ops[i:], 9) {
			return 0, bad
		}
		return seed, nil
	}}
	f, ran := trial.Search()
	require.ErrorIs(t, f, bad)
	require.Equal(t, []int{7, 9}, f.Ops)
	require.Less(t, ran, 1000)
	require.Contains(t, f.Error(), "2 of 50 operations are enough:\n\t7\n\t9")
	trial.Run = func(seed uint64, ops []int) (uint64, error) { return seed, nil }
	f, ran = trial.Search()
	require.Nil(t, f)
	require.Equal(t, 1000, ran)
	n := uint64(0)
	trial.Workers, trial.Run = 1, func(seed uint64, ops []int) (uint64, error) { n++; return n, nil }
	f, _ = trial.Search()
	require.ErrorContains(t, f, "repeat: the traces of two runs are")
}

// recorder is a test that keeps what it fails with.
type recorder struct {
	testing.TB
	text string
}

func (r *recorder) Helper()      {}
func (r *recorder) Name() string { return "TestOrders" }
func (r *recorder) Fatalf(format string, args ...any) {
	r.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// explore is what Explore says of a trial that fails from seed 5 on when there is a 7 among its operations.
func explore(again string) string {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		Explore(r, Trial[int]{Count: 20, Again: again, Generate: func(uint64, *rand.Rand) []int { return []int{1, 7, 2} },
			Run: func(seed uint64, ops []int) (uint64, error) {
				if seed >= 5 && slices.Contains(ops, 7) {
					return 0, errors.New("a 7")
				}
				return seed, nil
			}})
	}()
	<-done
	return r.text
}

func TestExploreSaysHowToRunItAgain(t *testing.T) {
	require.Equal(t, "seed 5: a 7\n1 of 3 operations are enough:\n\t7\nagain: SIMNET_SEED=5 go test -run '^TestOrders$'", explore(""))
	require.Contains(t, explore("make again SEED=%d"), "again: make again SEED=5")
	t.Setenv("SIMNET_SEED", "9")
	require.Contains(t, explore(""), "seed 9: a 7")
	t.Setenv("SIMNET_SEED", "2")
	require.Empty(t, explore(""))
	t.Setenv("SIMNET_SEED", "x")
	require.Equal(t, `simnet: SIMNET_SEED is "x", must be a number above 0`, explore(""))
}
