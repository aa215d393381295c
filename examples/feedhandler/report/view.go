package report

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/live"
	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// LineTimeout is how long a line may be silent before the view names it.
const LineTimeout = 3 * time.Second

// View shows a running handler: redrawn in place on a terminal, one line a second elsewhere.
type View struct {
	out      io.Writer
	terminal bool
	channels []live.Channel
	last     time.Time
	packets  uint64
	messages uint64
	drawn    int      // lines to go back over
	notes    []string // not shown yet
}

// NewView shows the channels on a file.
func NewView(f *os.File, channels []live.Channel) *View {
	return &View{out: f, terminal: isTerminal(f), channels: channels}
}

// note is a line that stays: on a terminal above the picture, with the next of them.
func (v *View) note(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if v.terminal {
		v.notes = append(v.notes, line)
		return
	}
	_, _ = io.WriteString(v.out, line+"\n") // a terminal that is gone needs no view
}

// Close writes the notes that no picture followed.
func (v *View) Close() {
	for _, line := range v.notes {
		_, _ = io.WriteString(v.out, line+"\n")
	}
	v.notes = v.notes[:0]
}

// Moved is live.Config.Moved.
func (v *View) Moved(line string, p xtreme.Path) { v.note("%s: the path has changed: %v", line, p) }

// OnEvent is a channel's OnEvent that names a line which fell silent or is received again. Then more is called, which may be nil.
func (v *View) OnEvent(more func(*handler.Channel, *feed.Event)) func(*handler.Channel, *feed.Event) {
	return func(c *handler.Channel, e *feed.Event) {
		switch e.Kind {
		case feed.LineDead:
			v.note("%s: dead: nothing has come for %v; next is %d", v.nameOf(c, e.Line), LineTimeout, e.Seq)
		case feed.LineAlive:
			v.note("%s: alive again; next is %d", v.nameOf(c, e.Line), e.Seq)
		}
		if more != nil {
			more(c, e)
		}
	}
}

// nameOf is a line of a channel: its letter, and where it is joined.
func (v *View) nameOf(c *handler.Channel, line uint8) string {
	for i := range v.channels {
		if k := &v.channels[i]; k.Handler.Name == c.Name() && int(line) < len(k.Lines) {
			return fmt.Sprintf("%s line %c %v", c.Name(), 'A'+line, k.Lines[line])
		}
	}
	return fmt.Sprintf("%s line %c", c.Name(), 'A'+line)
}

// isTerminal reports whether f is one.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Each is live.Config.Each.
func (v *View) Each(l *live.Live) {
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
func (v *View) line(b *strings.Builder, l *live.Live, pps, mps float64) {
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
func (v *View) draw(b *strings.Builder, l *live.Live, pps, mps float64) {
	if v.drawn > 0 {
		fmt.Fprintf(b, "\x1b[%dA", v.drawn)
	}
	for _, line := range v.notes {
		fmt.Fprintf(b, "%s\x1b[K\n", line)
	}
	v.notes = v.notes[:0]
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
