package why

import (
	"fmt"
	"slices"

	"github.com/socketxtreme/socketxtreme/stats"
)

// callbacks: packets that the program's own receive callbacks have dropped. That may be a filter, and it may be what a feed misses: only a feed
// whose sockets have no callback that has dropped anything is spared.
func callbacks(e *Evidence) []Finding {
	const counter = "callback_drops"
	n, _ := e.delta(stats.Rings, counter)
	if n == 0 {
		return nil
	}
	f := e.sampledAt(Finding{kind: aboutCallback, Place: Application, Cause: "the program's receive callback dropped packets (it returned Drop, as a filter does)",
		Count: n, Unit: "packets", Evidence: []string{fmt.Sprintf("%s.%s +%d", stats.Rings, counter, n)}}, stats.Rings, counter)
	var dropping []string // feeds
	for _, line := range e.Lines {
		if line.CallbackDrops > 0 {
			dropping = append(dropping, line.Feed)
		}
	}
	for _, line := range e.Lines {
		if !slices.Contains(dropping, line.Feed) {
			f.spared = append(f.spared, line.Feed)
		}
	}
	return []Finding{f}
}
