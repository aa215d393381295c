package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
)

// Text writes a summary for people.
func Text(w io.Writer, s *handler.Summary) {
	say := func(format string, a ...any) { _, _ = fmt.Fprintf(w, format, a...) } // a terminal that is gone needs no text
	for i := range s.Channels {
		c := &s.Channels[i]
		say("%s %s: %s, %d messages, %d trades\n", c.Name, c.Protocol, c.State, c.Messages, c.Trades)
		for _, e := range c.Epochs {
			say("  session %s: %d to %d, %d packets\n", e.Session, e.First, e.Last, e.Packets)
		}
		for n, l := range c.Lines {
			say("  line %c %s: %d packets, %d dropped at the socket, %d malformed, %d foreign\n"+
				"    messages: %d brought first, %d duplicates, %d lost on this line, %d reordered\n",
				'A'+n, l.Group, l.Packets, l.KernelDrops, l.Malformed, l.Foreign, l.FirstWins, l.Duplicates, l.Lost, l.Reordered)
			if l.KernelPackets > 0 {
				say("    %d of the packets by the kernel's socket beside the offloaded one\n", l.KernelPackets)
			}
		}
		if g := c.Gaps; g.Seen > 0 {
			say("  gaps: %d seen; messages filled by the other line %d, by recovery %d (%d requests), given up %d\n", g.Seen,
				g.FilledByLine, g.FilledByRecovery, g.Requests, c.Delivery.Unrecovered)
		}
		if k := c.Skew; k.Pairs > 0 {
			say("  same packet on both lines: A first %d times, B %d; B behind A by p50 %v, %v to %v\n",
				k.AFirst, k.BFirst, time.Duration(k.P50), time.Duration(k.Min), time.Duration(k.Max))
		}
	}
	b := s.Books
	say("books: %d symbols, %d two-sided, %d crossed, %d stale, %d levels; digest %s\n",
		b.Symbols, b.TwoSided, b.Crossed, b.Stale, b.Levels, b.Digest)
	for _, name := range []string{"send_to_receive", "wire_to_user", "user_to_book"} {
		if v, ok := s.Latency[name]; ok && v.Count > 0 {
			say("%s: p50 %v, p90 %v, p99 %v, p99.9 %v, max %v\n", strings.ReplaceAll(name, "_", " "),
				time.Duration(v.P50), time.Duration(v.P90), time.Duration(v.P99), time.Duration(v.P999), time.Duration(v.Max))
		}
	}
	if s.Ring != nil {
		writeRing(say, s.Ring)
	}
	if s.Clock.Suspicion != "" {
		say("%s\n", s.Clock.Suspicion)
	}
}

// writeRing writes what the rings counted, an offloaded ring's counts by their names.
func writeRing(say func(format string, a ...any), r *handler.RingSummary) {
	b := r.Buffers
	say("rings: %d packets, %d lost on links; of %d buffers %d free, %d ready for receiving, %d held, %d being sent\n", r.Packets,
		r.LinkDrops, b.Total, b.Free, b.Filling, b.Received+b.Held+b.Lent, b.Transmitting+b.Completing)
	for _, name := range slices.Sorted(maps.Keys(r.Counters)) {
		say("  %s %d\n", name, r.Counters[name])
	}
}
