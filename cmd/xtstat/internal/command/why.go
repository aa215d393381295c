package command

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/socketxtreme/socketxtreme/cmd/xtstat/internal/why"
	"github.com/socketxtreme/socketxtreme/stats"
)

// newWhyCommand makes "why": what was lost at a time, where and why.
func newWhyCommand() *cobra.Command {
	var t target
	var w window
	c := &cobra.Command{
		Use:   "why",
		Short: "Says what was lost at a time, where and why: upstream, card, kernel, ring, socket or application",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(c *cobra.Command, _ []string) error { return explain(c, &t, &w) },
	}
	t.flags(c.Flags())
	w.flags(c.Flags(), 2*time.Second, time.Minute)
	return c
}

// explain prints the findings of the window in the order of why.Explain.
func explain(c *cobra.Command, t *target, w *window) error {
	r, from, to, err := t.openWindow(w, c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer r.Close()
	list, elsewhere := findings(r, r.Samples(), from, to)
	if t.json {
		for i := range list {
			if err := json.NewEncoder(c.OutOrStdout()).Encode(&list[i]); err != nil {
				return err
			}
		}
		return nil
	}
	writeFindings(c.OutOrStdout(), list, elsewhere, from, to)
	return nil
}

// findings are what why finds out of a window, and lines about what was lost outside of it.
func findings(r *stats.Reader, samples []stats.Sample, from, to time.Time) (list []why.Finding, elsewhere []string) {
	e := why.Gather(samples, r.Events(), from, to)
	e.TextOnly = !r.HasEventFields()
	for _, v := range r.Blocks(stats.Host) {
		e.Homeless += v.Unnamed
	}
	lines := map[string]why.Line{} // by the socket's id
	for _, v := range r.Blocks(stats.Lines) {
		lines[v.Info["socket"]] = why.Line{Feed: v.Info["feed"], Name: v.Info["line"]}
	}
	delete(lines, "") // without a socket
	e.Lines, e.JoinedOn = map[string]why.Line{}, joinedOn(r.Blocks(stats.Sockets))
	for _, v := range r.Blocks(stats.Sockets) {
		if l, ok := lines[strconv.FormatUint(v.ID, 10)]; ok {
			l.CallbackDrops = v.Totals["callback_drops"]
			e.Lines[fmt.Sprintf("%s %d", v.Section, v.Index)] = l
		}
		if v.Info["protocol"] == "tcp" && v.Info["state"] == "listening" {
			e.Listens++
		}
		for g := range strings.SplitSeq(v.Info["groups"], ",") {
			if g = strings.Replace(g, "<", " from ", 1); g != "" && !slices.Contains(e.Joined, g) {
				e.Joined = append(e.Joined, g)
			}
		}
	}
	list = why.Explain(e)
	return list, e.Elsewhere()
}

// writeFindings writes what why has found between two times: in front what was lost elsewhere, then for each finding its number, from which
// one it follows, place, time, count and cause, and below them the evidence.
func writeFindings(out io.Writer, list []why.Finding, elsewhere []string, from, to time.Time) {
	fmt.Fprintf(out, "from %s to %s\n", from.Format("2006-01-02 15:04:05.000"), to.Format("15:04:05.000"))
	if s := why.Summary(list); s != "" {
		fmt.Fprintf(out, "%s\n", s)
	}
	for _, s := range elsewhere {
		fmt.Fprintf(out, "%s\n", s)
	}
	for i := range list {
		f := &list[i]
		place := string(f.Place)
		switch {
		case f.BecauseOf > 0 && f.Place == why.Unknown:
			place = fmt.Sprintf("perhaps because of %d", f.BecauseOf)
		case f.BecauseOf > 0:
			place = fmt.Sprintf("because of %d, %s", f.BecauseOf, f.Place)
		}
		count := ""
		if f.Count > 0 {
			count = fmt.Sprintf("%d %s: ", f.Count, f.Unit)
		}
		if f.Packets > 0 {
			count = fmt.Sprintf("%d %s (about %d packets a line): ", f.Count, f.Unit, f.Packets)
		}
		const layout = "15:04:05.000"
		at := ""
		switch {
		case !f.Time.IsZero() && f.Until.Sub(f.Time) >= time.Millisecond:
			at = fmt.Sprintf("%s to %s ", f.Time.Format(layout), f.Until.Format(layout))
		case !f.Time.IsZero():
			at = f.Time.Format(layout) + " "
		case !f.Since.IsZero():
			at = fmt.Sprintf("between %s and %s ", f.Since.Format(layout), f.Until.Format(layout))
		}
		if s := f.Bounds(); s != "" {
			at += "(" + s + ") "
		}
		fmt.Fprintf(out, "\n%d. %s: %s%s%s\n", f.Number, place, at, count, f.Cause)
		for _, x := range f.Evidence {
			fmt.Fprintf(out, "    %s\n", x)
		}
	}
}
