package host

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// A reader of any age gets what has changed since, or is notified that it is too much; older snapshots stay as they were.
func TestLogOfNeighbours(t *testing.T) {
	target := func(n int) Target {
		return Target{1, netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})}
	}
	s := NewSnapshot(Facts{}, 1)
	all := []*Snapshot{s}
	const total = 5 * logKept
	for n := range total {
		s = s.WithNeighbours(nil, uint64(n+2), []Target{target(n)})
		all = append(all, s)
	}
	for seen := 0; seen <= total; seen += 61 {
		for _, at := range []int{seen, min(seen+1, total), min(seen+logKept, total)} {
			require.EqualValues(t, seen, all[seen].NeighbourChanges())
			list, ok := all[at].ChangedNeighbours(all[seen].NeighbourChanges())
			require.True(t, ok, "%d of %d", seen, at)
			require.Len(t, list, at-seen)
			for i := range list {
				require.Equal(t, target(seen+i), list[i])
			}
		}
		_, ok := s.ChangedNeighbours(uint64(seen))
		require.True(t, ok || seen < total-logKept)
	}
	_, ok := s.ChangedNeighbours(0)
	require.False(t, ok, "too many")
	_, ok = all[0].ChangedNeighbours(1)
	require.False(t, ok, "newer than the snapshot")
}
