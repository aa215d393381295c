package why

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/stats"
)

// listeners: connections that the kernel refused at a listener. Its counters are those of all processes. ListenOverflows has the full listeners,
// ListenDrops those and others. A peer tries again some times, and each time counts.
func listeners(e *Evidence) []Finding {
	drops, evidence := e.delta(stats.Host, "tcp.ListenDrops")
	overflows, more := e.delta(stats.Host, "tcp.ListenOverflows")
	n := max(drops, overflows)
	if n == 0 {
		return nil
	}
	failed, _ := e.delta(stats.Rings, "accept_failures")
	f := Finding{kind: aboutConnections, Place: Socket, Count: n, Unit: "connections", Evidence: append(evidence, more...)}
	f = e.sampledAt(e.sampledAt(f, stats.Host, "tcp.ListenOverflows"), stats.Host, "tcp.ListenDrops")
	f.Cause = "the kernel refused connections at a listener, for want of memory or by a limit"
	if overflows > 0 {
		f.Cause = "a listener was full: the program accepts too slowly, or its backlog is short (Backlog, net.core.somaxconn)"
	}
	switch {
	case e.Listens == 0:
		f.kind, f.Cause = aboutOthers, f.Cause+"; no open socket of this process listens"
	case failed > 0:
		f.Place, f.Cause = Application, "connections could not be accepted for want of descriptors or memory (ulimit -n), and "+f.Cause
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s.accept_failures +%d", stats.Rings, failed))
	default:
		e.blameGaps(&f)
	}
	return []Finding{f}
}
