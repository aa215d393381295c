package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/feed"
)

// reports writes what -summary, -tob and -events ask for.
type reports struct {
	summary, tob string
	events       *eventLog
}

// eventLog writes one JSON object a line.
type eventLog struct {
	mu   sync.Mutex
	file *os.File
	out  *bufio.Writer
	err  error
}

func openReports(c config) (r reports, err error) {
	r = reports{summary: c.summary, tob: c.tob}
	if c.events != "" {
		f, err := os.Create(c.events)
		if err != nil {
			return r, err
		}
		r.events = &eventLog{file: f, out: bufio.NewWriter(f)}
	}
	return r, nil
}

// event is a line of the event log.
type event struct {
	Time    int64  `json:"t_ns"`
	Channel string `json:"channel"`
	Kind    string `json:"kind"`
	Epoch   uint32 `json:"epoch"`
	From    string `json:"from,omitempty"`
	To      string `json:"to,omitempty"`
	Seq     uint64 `json:"seq"`
	End     uint64 `json:"end,omitempty"`
	Line    *uint8 `json:"line,omitempty"`
	Cause   string `json:"cause"`
}

// write is a channel's OnEvent. Events are rare: this is not on the path of a packet that is in order.
func (l *eventLog) write(c *handler.Channel, e *feed.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := event{Time: e.Time, Channel: c.Name(), Kind: e.Kind.String(), Epoch: e.Epoch, Seq: e.Seq, End: e.End,
		Cause: e.Cause.String()}
	switch e.Kind {
	case feed.StateChanged:
		line.From, line.To = e.From.String(), e.To.String()
	case feed.LineAlive, feed.LineDead:
		line.Line = &e.Line
	}
	b, err := json.Marshal(line)
	if err == nil {
		_, err = l.out.Write(append(b, '\n'))
	}
	l.err = errors.Join(l.err, err)
}

// onEvent is nil without -events.
func (r *reports) onEvent() func(*handler.Channel, *feed.Event) {
	if r.events == nil {
		return nil
	}
	return r.events.write
}

// finish writes the files.
func (r *reports) finish(s *handler.Summary, channels []*handler.Channel) error {
	var failed []error
	if r.summary != "" {
		failed = append(failed, toFile(r.summary, s.WriteJSON))
	}
	if r.tob != "" {
		failed = append(failed, toFile(r.tob, func(w io.Writer) error { return handler.WriteTops(w, channels...) }))
	}
	if r.events != nil {
		failed = append(failed, r.events.err, r.events.out.Flush(), r.events.file.Close())
	}
	return errors.Join(failed...)
}

func toFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// tell writes the summary for people.
func tell(w io.Writer, s *handler.Summary) {
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
		tellRing(say, s.Ring)
	}
	if s.Clock.Suspicion != "" {
		say("%s\n", s.Clock.Suspicion)
	}
}

// tellRing writes what the rings counted, an offloaded ring's counts by their names.
func tellRing(say func(format string, a ...any), r *handler.RingSummary) {
	b := r.Buffers
	say("rings: %d packets, %d lost on links; of %d buffers %d free, %d ready for receiving, %d held, %d being sent\n", r.Packets,
		r.LinkDrops, b.Total, b.Free, b.Filling, b.Received+b.Held+b.Lent, b.Transmitting+b.Completing)
	for _, name := range slices.Sorted(maps.Keys(r.Counters)) {
		say("  %s %d\n", name, r.Counters[name])
	}
}
