package why

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/stats"
)

// The kernel counts the groups of all processes: where no socket of this one has joined a group on the interface it has lost none, and explains
// no gap in a feed. Where the kernel still has as many groups as this process has joined nobody knows whose it was.
func TestMembershipsOfOtherProcesses(t *testing.T) {
	explain := func(before, after uint64, joined map[string]int) (membership, gap Finding) {
		list := samples(nil)
		list[0].Values["host.eth0.groups"], list[1].Values["host.eth0.groups"] = before, after
		e := Gather(list, []stats.Event{feedGap(505, 300, 5, "deep 1-300 missing on a: no recovery")}, noon.Add(100*time.Millisecond), noon.Add(900*time.Millisecond))
		e.JoinedOn = joined
		found := Explain(e)
		require.Len(t, found, 2, "%+v", found)
		membership, gap = found[0], found[1]
		if membership.kind == aboutFeed {
			membership, gap = gap, membership
		}
		require.EqualValues(t, before-after, membership.Count)
		require.Equal(t, aboutFeed, gap.kind)
		return membership, gap
	}
	f, gap := explain(3, 2, map[string]int{"eth1": 1})
	require.Equal(t, aboutOthers, f.kind)
	require.Contains(t, f.Cause, "another process")
	require.Equal(t, Upstream, gap.Place)
	f, gap = explain(3, 2, map[string]int{"eth0": 2}) // the group of all hosts is there always
	require.Equal(t, Kernel, f.Place)
	require.Contains(t, f.Cause, "a membership was lost")
	require.Equal(t, f.Number, gap.BecauseOf)
	for _, joined := range []map[string]int{{"eth0": 1}, {"": 1}} { // "": the routing table may have chosen eth0
		f, gap = explain(3, 2, joined)
		require.Equal(t, Unknown, f.Place, "%+v", f)
		require.Equal(t, Unknown, gap.Place)
	}
}
