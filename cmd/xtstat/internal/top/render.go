package top

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/socketxtreme/socketxtreme/cmd/xtstat/internal/live"
)

// Style is how a piece of text looks; on a pipe all look alike.
type Style int

// The styles.
const (
	Plain Style = iota
	Title
	Dim
	Good
	Warn
	Bad
	Selected
)

// Span is a piece of text in a style, Line a line of the screen.
type (
	Span struct {
		Text  string
		Style Style
	}
	Line []Span
)

// String is the line without styles.
func (l Line) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.Text)
	}
	return strings.TrimRight(b.String(), " ")
}

// View is what the user has chosen.
type View struct {
	Order    live.Order
	Selected int  // row of the sockets
	Inside   bool // the selected socket alone
	Paused   bool
	Help     bool
}

// Render makes the screen of so many columns and rows.
func Render(m *live.Model, v *View, width, height int) []Line {
	list := []Line{header(m, v)}
	switch {
	case v.Help:
		list = append(list, help()...)
	case v.Inside && v.Selected < len(m.Sockets):
		list = append(list, inside(&m.Sockets[v.Selected])...)
	default:
		list = append(list, ratesLines(m, width)...)
		list = append(list, beside(width, gapLines(m, width/2-2), dropLines(m))...)
		list = append(list, poolLines(m, width)...)
		list = append(list, feedLines(m)...)
		events := eventLines(m)
		rows := max(3, height-len(list)-len(events)-3)
		list = append(list, socketLines(m, v, rows)...)
		list = append(list, events...)
	}
	for i := range list {
		list[i] = cut(list[i], width)
	}
	return list[:min(len(list), height)]
}

// header says which process it is.
func header(m *live.Model, v *View) Line {
	p := &m.Process
	state, style := "running", Good
	switch {
	case !p.Live:
		state, style = "ended "+p.Last.Format("15:04:05"), Bad
	case v.Paused:
		state, style = "paused", Warn
	}
	return Line{{fmt.Sprintf("%s %d ", p.Program, p.ID), Title}, {state, style},
		{fmt.Sprintf("  up %v  %s  ", m.At.Sub(p.Started).Round(time.Second), m.At.Format("15:04:05")), Plain}, {"? help  q quit", Dim}}
}

// help are the lines that explain the keys.
func help() []Line {
	var list []Line
	for _, text := range []string{"", "p b s u d i   sort sockets by packets, bytes, sent, queue, drops, fd", "up down       choose a socket (also k, j)",
		"enter         look into it; esc or enter goes back", "space         stop and go on", "q, ctrl-c     quit", "",
		"Rates are of the last second, bars of the last two minutes; drops and gaps of the last minute."} {
		list = append(list, Line{{text, Plain}})
	}
	return list
}

var sparks = []rune("▁▂▃▄▅▆▇█")

// Spark draws the newest values of a series into so many columns, the largest as a full one. Zero is a blank.
func Spark(s live.Series, width int) string {
	if len(s) > width {
		s = s[len(s)-width:]
	}
	most := 0.0
	for _, v := range s {
		most = max(most, v)
	}
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", width-len(s)))
	for _, v := range s {
		if v <= 0 || most <= 0 {
			b.WriteByte(' ')
			continue
		}
		b.WriteRune(sparks[min(len(sparks)-1, int(v/most*float64(len(sparks))))])
	}
	return b.String()
}

// ratesLines are the rates with their history.
func ratesLines(m *live.Model, width int) []Line {
	spark := max(10, min(60, width-34))
	row := func(name string, s live.Series, text string, style Style) Line {
		return Line{{fmt.Sprintf("%-10s ", name), Dim}, {fmt.Sprintf("%14s  ", text), style}, {Spark(s, spark), style}}
	}
	style, lost := Plain, Plain
	if m.Lost.Last() > 0 {
		lost = Bad
	}
	gap := Plain
	if m.Gap.Last() >= 1e6 {
		gap = Warn
	}
	return []Line{
		row("rx packets", m.RxPackets, Human(m.RxPackets.Last())+"/s", style), row("rx bits", m.RxBytes, Human(8*m.RxBytes.Last())+"bit/s", style),
		row("tx packets", m.TxPackets, Human(m.TxPackets.Last())+"/s", style), row("tx bits", m.TxBytes, Human(8*m.TxBytes.Last())+"bit/s", style),
		row("polls hit", m.HitRatio, fmt.Sprintf("%.1f %%", 100*m.HitRatio.Last()), style), row("lost", m.Lost, Human(m.Lost.Last())+"/s", lost),
		row("batch", m.Batch, Human(m.Batch.Last()), style), row("queue", m.Queue, Human(m.Queue.Last()), style),
		row("longest gap", m.Gap, fmt.Sprint(time.Duration(m.Gap.Last()).Round(time.Microsecond)), gap), {}}
}

// gapLines are the histogram of gaps between polls.
func gapLines(m *live.Model, width int) []Line {
	list := []Line{{{"gaps between polls, a second", Title}}}
	most := 0.0
	for _, g := range m.Gaps {
		most = max(most, g.Rate)
	}
	for _, g := range m.Gaps {
		bar := 0
		if most > 0 {
			bar = int(g.Rate / most * float64(max(0, width-24)))
		}
		list = append(list, Line{{fmt.Sprintf("%10s %8s ", g.Name, Human(g.Rate)), Plain}, {strings.Repeat("█", bar), Warn}})
	}
	return list
}

// dropLines are what was lost, by reason.
func dropLines(m *live.Model) []Line {
	list := []Line{{{"lost, by reason: a second, in all", Title}}}
	for _, d := range m.Drops[:min(len(m.Drops), 8)] {
		style := Plain
		if d.Rate > 0 {
			style = Bad
		}
		list = append(list, Line{{fmt.Sprintf("%-28s %8s %10d", d.Name, Human(d.Rate), d.Total), style}})
	}
	if len(m.Drops) == 0 {
		list = append(list, Line{{"nothing", Good}})
	}
	return list
}

// beside puts two blocks next to each other.
func beside(width int, left, right []Line) []Line {
	var list []Line
	for i := range max(len(left), len(right)) {
		var line Line
		if i < len(left) {
			line = cut(left[i], width/2-2)
		}
		used := 0
		for _, s := range line {
			used += utf8.RuneCountInString(s.Text)
		}
		if i < len(right) {
			line = append(append(line, Span{strings.Repeat(" ", max(0, width/2-used)), Plain}), right[i]...)
		}
		list = append(list, line)
	}
	return append(list, Line{})
}

// poolLines are the buffers of each poller: how many are in use, and how many in each state.
func poolLines(m *live.Model, width int) []Line {
	list := []Line{{{"buffers in use", Title}}}
	for _, p := range m.Pools {
		full := max(10, min(40, width-50))
		bar, style := 0, Good
		if p.Total > 0 {
			bar = int(p.Used * uint64(full) / p.Total)
			if p.Used*10 > p.Total*9 {
				style = Bad
			}
		}
		list = append(list, Line{{fmt.Sprintf("%-16s ", p.Name), Plain}, {strings.Repeat("█", bar), style}, {strings.Repeat("·", full-bar), Dim},
			{fmt.Sprintf(" %d used of %d", p.Used, p.Total), Plain}})
		if len(p.States) > 0 {
			list = append(list, Line{{fmt.Sprintf("%-16s %s", "", live.StatesText(p.States)), Dim}})
		}
	}
	return append(list, Line{})
}

// feedRows is how many lines of feeds are shown.
const feedRows = 12

// feedLines are the lines of feeds; nothing without a feed.
func feedLines(m *live.Model) []Line {
	if len(m.Lines) == 0 {
		return nil
	}
	title := fmt.Sprintf("%-12s %-24s %9s %11s %9s %6s %8s %9s %12s", "feed", "line", "rx/s", "first", "dup", "gaps", "lost", "recovered", "last")
	list := []Line{{{title, Title}}}
	for _, x := range m.Lines[:min(len(m.Lines), feedRows)] {
		style := Plain
		switch {
		case x.Dead:
			style = Bad
		case x.Lost > 0:
			style = Warn
		}
		list = append(list, Line{{fmt.Sprintf("%-12.12s %-24.24s %9s %11d %9d %6d %8d %9d %12d", x.Feed, x.Line, Human(x.Rate), x.First, x.Duplicates, x.Gaps,
			x.Lost, x.Recovered, x.Last), style}})
	}
	if n := len(m.Lines) - feedRows; n > 0 {
		list = append(list, Line{{fmt.Sprintf("%d lines more: xtstat -v 3 has all", n), Dim}})
	}
	return append(list, Line{})
}

// socketLines are the sockets.
func socketLines(m *live.Model, v *View, rows int) []Line {
	title := fmt.Sprintf("%6s %-5s %-22s %-22s %9s %9s %9s %7s %8s", "fd", "proto", "local", "remote", "rx/s", "rx B/s", "tx/s", "queued", "drops")
	list := []Line{{{title, Title}}}
	first := max(0, v.Selected-rows+1)
	for i := first; i < min(len(m.Sockets), first+rows); i++ {
		s := &m.Sockets[i]
		style := Plain
		switch {
		case i == v.Selected:
			style = Selected
		case s.Drops > 0:
			style = Warn
		}
		list = append(list, Line{{fmt.Sprintf("%6d %-5s %-22s %-22s %9s %9s %9s %7d %8d", s.ID, s.Protocol, s.Local, s.Remote, Human(s.Packets),
			Human(s.Bytes), Human(s.Sent), s.Queued, s.Drops), style}})
	}
	if m.Unpublished > 0 {
		list = append(list, Line{{fmt.Sprintf("%d sockets more have found no room in the file (VMA_STATS_FD_NUM)", m.Unpublished), Dim}})
	}
	return append(list, Line{})
}

// eventLines are the newest events of the journal.
func eventLines(m *live.Model) []Line {
	list := []Line{{{"journal", Title}}}
	for _, e := range m.Events[max(0, len(m.Events)-4):] {
		text := fmt.Sprintf("%s %-9s +%d %s", e.Time.Format("15:04:05.000"), e.Kind, e.Count, e.Text)
		if e.About != "" {
			text += " (" + e.About + ")"
		}
		list = append(list, Line{{text, Plain}})
	}
	return list
}

// inside is one socket, as view 3 shows it.
func inside(s *live.Socket) []Line {
	var list []Line
	for line := range strings.Lines(s.Text()) {
		list = append(list, Line{{strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    "), Plain}})
	}
	return append(list, Line{}, Line{{fmt.Sprintf("rx %s/s, %sB/s; tx %s/s", Human(s.Packets), Human(s.Bytes), Human(s.Sent)), Title}})
}

// cut cuts a line after so many columns.
func cut(l Line, width int) Line {
	for i := range l {
		n := utf8.RuneCountInString(l[i].Text)
		if n <= width {
			width -= n
			continue
		}
		text := []rune(l[i].Text)
		return append(l[:i:i], Span{string(text[:max(width, 0)]), l[i].Style})
	}
	return l
}

// Human is a number with a unit: 12.3k.
func Human(v float64) string {
	for _, u := range []struct {
		least float64
		name  string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= u.least {
			return fmt.Sprintf("%.1f%s", v/u.least, u.name)
		}
	}
	if v == float64(int(v)) {
		return fmt.Sprintf("%d", int(v))
	}
	return fmt.Sprintf("%.1f", v)
}
