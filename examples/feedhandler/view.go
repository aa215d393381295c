package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/live"
)

// view shows a running handler: redrawn in place on a terminal, one line a second elsewhere.
type view struct {
	out      io.Writer
	terminal bool
	last     time.Time
	packets  uint64
	messages uint64
	drawn    int // lines to go back over
}

// isTerminal tells whether f is one.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// each is live.Config.Each.
func (v *view) each(l *live.Live) {
	now := time.Now()
	if v.last.IsZero() {
		v.last = now
		return
	}
	d := now.Sub(v.last)
	if d < time.Second {
		return
	}
	var messages uint64
	for _, c := range l.Channels {
		messages += c.Messages()
	}
	pps, mps := float64(l.Packets-v.packets)/d.Seconds(), float64(messages-v.messages)/d.Seconds()
	v.last, v.packets, v.messages = now, l.Packets, messages
	var b strings.Builder
	if v.terminal {
		v.draw(&b, l, pps, mps)
	} else {
		v.line(&b, l, pps, mps)
	}
	_, _ = io.WriteString(v.out, b.String()) // a terminal that is gone needs no view
}

// line is the short form.
func (v *view) line(b *strings.Builder, l *live.Live, pps, mps float64) {
	fmt.Fprintf(b, "%.0f packets/s %.0f messages/s", pps, mps)
	for _, c := range l.Channels {
		s := c.Stats()
		fmt.Fprintf(b, " | %s %v next %d gaps %d filled %d+%d lost %d", c.Name(), s.State, s.Next, s.Gaps, s.FilledByLine,
			s.FilledByRecovery, s.Unrecovered)
	}
	for _, h := range []struct {
		name string
		v    handler.Values
	}{{"wire to user", handler.Quantiles(l.WireToUser)}, {"user to book", handler.Quantiles(l.UserToBook)}} {
		if h.v.Count > 0 { // offloaded rings stamp when they take a frame: that is no time on the wire
			fmt.Fprintf(b, " | %s p50 %v p99 %v", h.name, time.Duration(h.v.P50), time.Duration(h.v.P99))
		}
	}
	b.WriteByte('\n')
}

// draw is the terminal's form.
func (v *view) draw(b *strings.Builder, l *live.Live, pps, mps float64) {
	if v.drawn > 0 {
		fmt.Fprintf(b, "\x1b[%dA", v.drawn)
	}
	n := 0
	row := func(format string, a ...any) {
		fmt.Fprintf(b, format+"\x1b[K\n", a...)
		n++
	}
	row("%.0f packets/s   %.0f messages/s", pps, mps)
	for _, c := range l.Channels {
		s := c.Stats()
		row("%-10s %-10v next %-12d gaps %d: other line %d, recovery %d, lost %d; parked %d", c.Name(), s.State, s.Next,
			s.Gaps, s.FilledByLine, s.FilledByRecovery, s.Unrecovered, s.Parked)
		for i := range c.Lines() {
			k := c.Line(uint8(i))
			state := ""
			if k.Dead {
				state = "DEAD"
			}
			row("   line %c  first %-12d duplicates %-12d lost %-8d reordered %-8d %s", 'A'+i, k.FirstWins, k.Duplicates, k.Lost,
				k.Reordered, state)
		}
		if name, bid, ask := c.LastPublished(); name != "" {
			row("   %-8s %d × %d   %d × %d", name, bid.Size, bid.Price, ask.Price, ask.Size)
		}
	}
	for _, h := range []struct {
		name string
		v    handler.Values
	}{{"wire to user", handler.Quantiles(l.WireToUser)}, {"user to book", handler.Quantiles(l.UserToBook)}} {
		if h.v.Count == 0 { // offloaded rings stamp when they take a frame: that is no time on the wire
			row("%-14s no stamps", h.name)
			continue
		}
		row("%-14s p50 %-10v p99 %-10v p99.9 %-10v max %v", h.name, time.Duration(h.v.P50), time.Duration(h.v.P99),
			time.Duration(h.v.P999), time.Duration(h.v.Max))
	}
	v.drawn = n
}
