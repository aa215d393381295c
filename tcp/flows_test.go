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
	const operations = 200_000
	x := &Table{flows: newFlows([2]uint64{random.Uint64(), random.Uint64()}), timeWaits: timeWaits{all: make([]timeWait, operations)}}
	f := &x.flows
	model := map[uint32]ref{}
	for i := range operations {
		n := uint32(random.IntN(20_000))
		local, remote := flowOf(n)
		switch random.IntN(5) {
		case 0, 1, 2:
			if old := model[n]; old != 0 {
				f.remove(local, remote, old)
			}
			r := refOf(refTimeWait, uint32(i))
			x.timeWaits.all[i].local, x.timeWaits.all[i].remote = local, remote
			f.add(local, remote, r)
			model[n] = r
		case 3:
			f.remove(local, remote, model[n])
			delete(model, n)
		default:
			require.Equal(t, model[n], x.find(local, remote))
		}
	}
	require.Equal(t, len(model), f.count)
	for n, r := range model {
		local, remote := flowOf(n)
		require.Equal(t, r, x.find(local, remote))
		f.remove(local, remote, r)
	}
	require.Zero(t, f.count)
	for _, e := range f.young {
		require.Zero(t, e.ref)
	}
}

// Two flows of one hash are told apart by their records.
func TestFlowsOfOneHash(t *testing.T) {
	x := &Table{flows: newFlows([2]uint64{1, 2}), timeWaits: timeWaits{all: make([]timeWait, 2)}}
	for n := range uint32(2) {
		w := &x.timeWaits.all[n]
		w.local, w.remote = flowOf(n)
		x.flows.add(w.local, w.remote, refOf(refTimeWait, n))
	}
	first, second := x.timeWaits.all[0], x.timeWaits.all[1]
	h := x.flows.hash(first.local, first.remote)
	x.flows.remove(second.local, second.remote, refOf(refTimeWait, 1))
	insert(x.flows.young, flow{h, refOf(refTimeWait, 1)})
	require.Equal(t, refOf(refTimeWait, 0), x.findHash(h, first.local, first.remote))
	require.Equal(t, refOf(refTimeWait, 1), x.findHash(h, second.local, second.remote))
	_, other := flowOf(2)
	require.Zero(t, x.findHash(h, first.local, other))
}

// One insertion touches a bounded number of entries: no call moves a whole table.
func TestFlowsGrowWithoutAPause(t *testing.T) {
	f := newFlows([2]uint64{3, 4})
	for n := range uint32(100_000) {
		local, remote := flowOf(n)
		before := f.moved
		f.add(local, remote, refOf(refConn, n))
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
