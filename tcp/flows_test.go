package tcp

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

func flowOf(n uint32) (local, remote Endpoint) {
	return Endpoint{wire.Addr{10, 0, 0, 1}, 80}, Endpoint{wire.Addr{10, byte(n >> 24), byte(n >> 16), 2}, uint16(n)}
}

// The table says what a map says, through growth and removal.
func TestFlowsAgainstAMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	f := newFlows([2]uint64{random.Uint64(), random.Uint64()})
	model := map[uint32]ref{}
	for i := range 200_000 {
		n := uint32(random.IntN(20_000))
		local, remote := flowOf(n)
		switch random.IntN(5) {
		case 0, 1, 2:
			r := refOf(refTimeWait, uint32(i))
			f.set(local, remote, r)
			model[n] = r
		case 3:
			f.remove(local, remote)
			delete(model, n)
		default:
			require.Equal(t, model[n], f.find(local, remote))
		}
	}
	require.Equal(t, len(model), f.count)
	for n, r := range model {
		local, remote := flowOf(n)
		require.Equal(t, r, f.find(local, remote))
		f.remove(local, remote)
	}
	require.Zero(t, f.count)
	for _, e := range f.young {
		require.Zero(t, e.ref)
	}
}

// One insertion touches a bounded number of entries: no call moves a whole table.
func TestFlowsGrowWithoutAPause(t *testing.T) {
	f := newFlows([2]uint64{3, 4})
	for n := range uint32(100_000) {
		local, remote := flowOf(n)
		before := f.moved
		f.set(local, remote, refOf(refConn, n))
		if f.old != nil && f.moved > before {
			require.LessOrEqual(t, f.moved-before, movesAtATime)
		}
		require.LessOrEqual(t, 2*f.count, len(f.young)+2*movesAtATime)
	}
}

func TestRefs(t *testing.T) {
	for _, kind := range []ref{refConn, refHalfOpen, refTimeWait} {
		r := refOf(kind, 12345)
		require.NotZero(t, r)
		require.Equal(t, kind, r.kind())
		require.EqualValues(t, 12345, r.index())
	}
}
