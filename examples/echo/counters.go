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
		list := r.Counters(nil)
		if len(list) == 0 {
			continue
		}
		var lost uint32
		for _, s := range l.listeners {
			if s.Ring() == r {
				if n, err := s.Drops(); err == nil {
					lost += n
				}
			}
		}
		fmt.Fprintf(&b, "%s: ring of kind %s counted\n", l.poller.Name(), r.Kind())
		fmt.Fprintf(&b, "  ring.packets %d\n  ring.sent %d\n  sockets.drops %d\n", r.Stats().Packets, r.Stats().SentMessages, lost)
		for _, c := range list {
			if c.Value != 0 {
				fmt.Fprintf(&b, "  %s %d\n", c.Name, c.Value)
			}
		}
	}
	return b.String()
}
