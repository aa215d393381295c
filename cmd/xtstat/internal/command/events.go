package command

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/socketxtreme/socketxtreme/stats"
)

// newEventsCommand makes "events": the journal.
func newEventsCommand() *cobra.Command {
	var t target
	var w window
	var which eventChoice
	c := &cobra.Command{
		Use:   "events",
		Short: "Shows the journal of a process: drops, gaps, paths, memberships, also of one that has ended",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(c *cobra.Command, _ []string) error { return events(c, &t, &w, &which) },
	}
	t.flags(c.Flags())
	w.flags(c.Flags(), 2*time.Second, 0)
	c.Flags().BoolVarP(&which.all, "all", "a", false, "a line for each gap between polls; without it gaps that follow each other are one")
	c.Flags().StringSliceVar(&which.kinds, "kind", nil, "only these kinds: drop, poll_gap, path, link, join, leave, feed_gap, recovery, zero, note")
	return c
}

// eventChoice says which events of a window are written, and how.
type eventChoice struct {
	kinds []string // none: all
	all   bool     // a line for each gap between polls
}

// endOfTime is behind all events.
var endOfTime = time.Unix(1<<40, 0)

// events prints the events of the process's journal that the window and the kinds select, the oldest first.
func events(c *cobra.Command, t *target, w *window, which *eventChoice) error {
	if err := w.check(); err != nil {
		return err
	}
	r, err := t.open(c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer r.Close()
	p, err := r.Process()
	if err != nil {
		return err
	}
	for _, k := range which.kinds {
		if !slices.Contains(r.Description().Kinds, k) {
			return usageError{fmt.Errorf("kind %q: the process has %v", k, r.Description().Kinds)}
		}
	}
	from, to := time.Time{}, endOfTime
	if w.isGiven() {
		if from, to, err = w.bounds(p); err != nil {
			return err
		}
	}
	return writeEvents(c.OutOrStdout(), r, from, to, which, t.json)
}

// How times are printed: of an event, and inside of its line.
const (
	eventLayout = "2006-01-02 15:04:05.000000"
	timeLayout  = "15:04:05.000"
)

// writeEvents writes the events between two times, the oldest first. JSON has a line for each.
func writeEvents(out io.Writer, r *stats.Reader, from, to time.Time, which *eventChoice, asJSON bool) error {
	fold := gapFold{out: out}
	for _, e := range r.Events() {
		if e.Time.Before(from) || e.Time.After(to) || len(which.kinds) > 0 && !slices.Contains(which.kinds, e.Kind) {
			continue
		}
		if asJSON {
			if err := json.NewEncoder(out).Encode(e); err != nil {
				return err
			}
			continue
		}
		if !which.all && fold.add(&e) {
			continue
		}
		fold.flush()
		writeEvent(out, &e)
	}
	fold.flush()
	return nil
}

// writeEvent writes an event as a line.
func writeEvent(out io.Writer, e *stats.Event) {
	fmt.Fprintf(out, "%s %-9s %s\n", e.Time.Format(eventLayout), e.Kind, sentence(e))
}

// sentence is an event in words: for a drop the counter, how much it grew and what it means; for a gap its length, for one in a feed
// when it was; then what it happened to.
func sentence(e *stats.Event) string {
	text := e.Text
	switch e.Kind {
	case stats.EventDrop.String():
		text = fmt.Sprintf("%s +%d", text, e.Count)
		for _, s := range stats.Sections() {
			if row := s.Find(e.Code); row != nil && row.Loss {
				text += ": " + row.Help
				break
			}
		}
	case stats.EventPollGap.String():
		text = fmt.Sprintf("%v between two polls of %s: %s", time.Duration(e.Count), e.Name, text)
	case stats.EventFeedGap.String():
		if e.Earliest.Before(e.End) {
			text = fmt.Sprintf("%s; lost between %s and %s", text, e.Earliest.Format(timeLayout), e.End.Format(timeLayout))
		}
	case stats.EventPath.String():
		switch {
		case e.Name != "kernel_packets":
		case e.Code == stats.CodeEnded:
			text = fmt.Sprintf("%s: the last of %d packets of an offloaded socket that came through the kernel", text, e.Count)
		default:
			text = fmt.Sprintf("%s +%d: packets of an offloaded socket begin to come through the kernel", text, e.Count)
		}
	}
	switch { // a join, a leave and a path name the socket themselves
	case e.About != "" && !strings.Contains(text, e.About) && !strings.Contains(text, " fd="):
		text += " (" + e.About + ")"
	case e.About == "" && e.Of != "":
		text += " (" + e.Of + ")"
	}
	return text
}
