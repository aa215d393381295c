package why

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/stats"
)

// What the program's own callback drops is a loss of the application, and may be what a feed misses, unless no socket of the feed has a callback
// that has dropped anything. It is no loss in the history: a callback may be a filter.
func TestDropsOfReceiveCallbacks(t *testing.T) {
	explain := func(lines map[string]Line, events ...stats.Event) []Finding {
		e := Gather(samples(map[string]uint64{"ring.callback_drops": 150, "socket.callback_drops": 150}), events, noon.Add(100*time.Millisecond), noon.Add(900*time.Millisecond))
		e.Lines = lines
		return Explain(e)
	}
	found := explain(nil)
	require.Len(t, found, 1, "%+v", found)
	require.Equal(t, Application, found[0].Place)
	require.EqualValues(t, 150, found[0].Count)
	require.Contains(t, found[0].Cause, "receive callback")
	require.Equal(t, []string{"ring.callback_drops +150"}, found[0].Evidence)
	require.Equal(t, [2]time.Time{noon, noon.Add(time.Second)}, [2]time.Time{found[0].Since, found[0].Until})

	gap := feedGap(505, 150, 5, "deep 1-150 missing on a: no recovery")
	place := func(found []Finding) Place {
		require.Len(t, found, 2, "%+v", found)
		for _, f := range found {
			if f.kind == aboutFeed {
				return f.Place
			}
		}
		return ""
	}
	require.Equal(t, Unknown, place(explain(nil, gap)))
	require.Equal(t, Unknown, place(explain(map[string]Line{"socket 3": {Feed: "deep", Name: "a", CallbackDrops: 150}, "socket 4": {Feed: "deep", Name: "b"}}, gap)))
	require.Equal(t, Upstream, place(explain(map[string]Line{"socket 3": {Feed: "deep", Name: "a"}, "socket 4": {Feed: "tops", Name: "b", CallbackDrops: 150}}, gap)))
	require.Equal(t, []uint64{0, 0}, Lost(samples(map[string]uint64{"ring.callback_drops": 150, "socket.callback_drops": 150})))
}
