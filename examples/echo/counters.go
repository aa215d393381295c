package main

import (
	"fmt"
	"strings"
)

// counters is what an offloaded ring counted, line by line: what it delivered, what the kernel lost at its sockets, and every count of
// stack and links that is not 0. Kernel rings have none.
func (l *loop) counters() string {
	var b strings.Builder
	for _, r := range l.poller.Rings() {
		stats := r.Stats()
		if len(stats.Driver) == 0 {
			continue
		}
		var lost uint64
		for _, s := range l.listeners {
			if s.Ring() == r {
				lost += s.Stats().Drops
			}
		}
		fmt.Fprintf(&b, "%s: ring of kind %s counted\n", l.poller.Name(), r.Kind())
		fmt.Fprintf(&b, "  ring.packets %d\n  ring.sent %d\n  sockets.drops %d\n", stats.Packets, stats.SentMessages, lost)
		for _, c := range stats.Driver {
			if c.Value != 0 {
				fmt.Fprintf(&b, "  %s %d\n", c.Name, c.Value)
			}
		}
	}
	return b.String()
}
