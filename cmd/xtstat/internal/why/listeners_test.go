package why

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/stats"
)

// Connections that a full listener of the kernel refused are found. The kernel counts those of all processes: of one that does not listen they
// are others'. They explain no gap in a feed.
func TestFullListeners(t *testing.T) {
	explain := func(listens int, delta map[string]uint64, events ...stats.Event) []Finding {
		e := Gather(samples(delta), events, noon, noon.Add(time.Second))
		e.Listens = listens
		return Explain(e)
	}
	full := map[string]uint64{"host.tcp.ListenDrops": 40, "host.tcp.ListenOverflows": 38}
	found := explain(1, full)
	require.Len(t, found, 1, "%+v", found)
	require.Equal(t, Socket, found[0].Place)
	require.EqualValues(t, 40, found[0].Count)
	require.Equal(t, "connections", found[0].Unit)
	require.Contains(t, found[0].Cause, "a listener was full")
	require.Equal(t, []string{"tcp.ListenDrops +40", "tcp.ListenOverflows +38"}, found[0].Evidence)

	found = explain(1, map[string]uint64{"host.tcp.ListenDrops": 2})
	require.Len(t, found, 1, "%+v", found)
	require.NotContains(t, found[0].Cause, "was full")

	found = explain(1, map[string]uint64{"host.tcp.ListenDrops": 40, "host.tcp.ListenOverflows": 38, "ring.accept_failures": 3})
	require.Equal(t, Application, found[0].Place, "%+v", found)
	require.Contains(t, found[0].Cause, "descriptors")
	require.Contains(t, found[0].Evidence, "ring.accept_failures +3")

	found = explain(1, full, pollGap(900, 700e6, stats.CodeHandler, ": fd=9 took 700ms"))
	require.Equal(t, Application, found[0].Place, "%+v", found)
	require.Contains(t, found[0].Cause, "the loop did not poll for 700ms (handler: fd=9 took 700ms)")

	found = explain(0, full, feedGap(505, 9, 5, "deep 1-9 missing on a: no recovery"))
	require.Len(t, found, 2, "%+v", found)
	for _, f := range found {
		if f.kind == aboutFeed {
			require.Equal(t, Upstream, f.Place)
			continue
		}
		require.Equal(t, aboutOthers, f.kind)
		require.Contains(t, f.Cause, "no open socket of this process listens")
	}
	require.Equal(t, []uint64{0, 0}, Lost(samples(full)))
}
