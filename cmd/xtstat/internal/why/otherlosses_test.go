package why

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/stats"
)

// Each counter of a loss has a finding, whether samples or the journal tell of it, and it is not called upstream: only frames that came damaged
// are.
func TestEachLossHasAFinding(t *testing.T) {
	n := 0
	for _, section := range stats.Sections() {
		for _, row := range section.Counters {
			if !row.Loss {
				continue
			}
			n++
			column := section.Name + "." + row.Name
			delta := map[string]uint64{column: 7}
			if section.Name == stats.Drivers && stats.SectionOf(stats.Host).Find(row.Name) != nil {
				delta["host.v0/0."+row.Name] = 7 // of links samples have both
			}
			event := journal(500, stats.EventDrop, 7, row.Name)
			event.Code = row.Name
			for source, found := range map[string][]Finding{
				"samples": Explain(Gather(samples(delta), nil, noon, noon.Add(time.Second))),
				"journal": Explain(Gather(samples(nil), []stats.Event{event}, noon, noon.Add(time.Second))),
			} {
				require.Len(t, found, 1, "%s, %s: %+v", column, source, found)
				f := found[0]
				require.EqualValues(t, 7, f.Count, "%s, %s: %+v", column, source, f)
				require.NotEmpty(t, f.Unit, column)
				require.NotEmpty(t, f.Evidence, column)
				require.False(t, f.begin().IsZero(), "%s, %s: when", column, source)
				_, local := reasons[row.Name]
				if section.Name == stats.Drops && !local {
					require.Contains(t, f.Cause, row.Name)
					continue
				}
				require.True(t, f.Lost(), "%s, %s: %+v", column, source, f)
			}
		}
	}
	require.Greater(t, n, 30)
}

// Datagrams that were cut, or came for a closed socket, may be those that a feed misses. What could not be sent is none that a feed misses.
func TestOtherLossesAndGapsInFeeds(t *testing.T) {
	gap := feedGap(505, 300, 5, "deep 1-300 missing on a: no recovery")
	for counter, want := range map[string][2]Place{ // of the loss, of the gap
		"truncated":       {Socket, Unknown},
		"closed_drops":    {Application, Unknown},
		"lost_sends":      {Socket, Upstream},
		"neighbour.time":  {Ring, Upstream},
		"xdp.tx_too_long": {Ring, Upstream},
	} {
		found, _ := explained(nil, drop(500, 300, counter), gap)
		require.Len(t, found, 2, "%s: %+v", counter, found)
		got := [2]Place{}
		for _, f := range found {
			require.EqualValues(t, 300, f.Count)
			if f.kind == aboutFeed {
				got[1] = f.Place
			} else {
				got[0] = f.Place
			}
		}
		require.Equal(t, want, got, "%s: %+v", counter, found)
	}
}
