package udp

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The flat table against Go's map, with few buckets so that probes collide and removals move entries.
func TestFlowsAgainstAMap(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		f, model := newFlows([2]uint64{r.Uint64(), r.Uint64()}), map[[2]uint64]int32{}
		for step := range 3000 {
			k := [2]uint64{r.Uint64N(40), r.Uint64N(5)}
			switch r.IntN(3) {
			case 0, 1:
				v := int32(r.IntN(1000))
				f.set(k[0], k[1], v)
				model[k] = v
			case 2:
				f.remove(k[0], k[1])
				delete(model, k)
			}
			require.Equal(t, len(model), f.n, "seed %d step %d", seed, step)
			want, ok := model[k]
			if !ok {
				want = none
			}
			require.Equal(t, want, f.find(k[0], k[1]), "seed %d step %d", seed, step)
		}
		for k, v := range model {
			require.Equal(t, v, f.find(k[0], k[1]))
		}
		require.LessOrEqual(t, 2*f.n, len(f.entries))
	}
}
