package ring

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// Against a list that is searched: sockets that come, move and go in any order leave in the order of their times.
func TestPaceQueue(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var q paceQueue
	sockets := make([]*shaper, 100)
	for i := range sockets {
		sockets[i] = &shaper{}
	}
	in := map[*shaper]clock.Time{}
	for range 20_000 {
		s := sockets[r.IntN(len(sockets))]
		switch r.IntN(3) {
		case 0, 1:
			at := clock.Time(r.Int64N(1000))
			q.set(s, at)
			in[s] = at
		case 2:
			q.remove(s)
			delete(in, s)
		}
		require.Len(t, q, len(in))
		least := clock.Never
		for i, x := range q {
			if i+1 != x.heapIndex || in[x] != x.due {
				require.Equal(t, i+1, x.heapIndex)
				require.Equal(t, in[x], x.due)
			}
		}
		for _, at := range in {
			least = min(least, at)
		}
		if len(q) > 0 {
			require.Equal(t, least, q[0].due)
		}
	}
	last := clock.Time(0)
	for len(q) > 0 {
		require.LessOrEqual(t, last, q[0].due)
		last = q[0].due
		q.remove(q[0])
	}
	q.remove(nil) // one without a shaper is not in it
	require.Zero(t, testing.AllocsPerRun(100, func() { q.set(sockets[0], 1); q.remove(sockets[0]) }))
}
