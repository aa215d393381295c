package why

import (
	"strings"

	"github.com/socketxtreme/socketxtreme/stats"
)

// others are the counters of losses that have no rule of their own, by section and name: where that is, and why. Those of sends explain no gap
// in a feed.
var others = map[string]struct {
	place Place
	kind  kind
	means string // empty: the help of the counter
}{
	"ring.truncated": {place: Socket, means: "datagrams were longer than the socket has room for, and were cut (LargestDatagram, or large buffers were " +
		"missing)"},
	"ring.closed_drops":         {place: Application, means: "packets came for a socket that the program had closed, or waited in it when it was closed"},
	"ring.lost_sends":           {place: Socket, kind: aboutSends},
	"driver.offload.lost_sends": {place: Ring, kind: aboutSends},
	"driver.stack.lost":         {place: Card, kind: aboutSends},
	"driver.xdp.tx_no_carrier":  {place: Card, kind: aboutSends},
}

// otherLosses: what no rule before this one has asked for. Each counter of a loss has a finding.
func otherLosses(e *Evidence) (found []Finding) {
	for _, section := range stats.Sections() {
		for i := range section.Counters {
			row := &section.Counters[i]
			column := section.Name + "." + row.Name
			if !row.Loss || e.asked[column] {
				continue
			}
			x, ok := others[column]
			if !ok {
				x.place = Ring
				if strings.HasPrefix(row.Name, "neighbour.") || strings.Contains(row.Name, ".tx_") {
					x.kind = aboutSends
				}
			}
			if x.means == "" {
				x.means = row.Help
			}
			for _, f := range e.losses(counter{section.Name, row.Name}) {
				f.kind, f.Place, f.Cause, f.Unit = x.kind, x.place, column+": "+x.means, row.Unit
				found = append(found, f)
			}
		}
	}
	return found
}
