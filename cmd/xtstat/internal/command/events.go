package command

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/socketxtreme/socketxtreme/stats"
)

// newEventsCommand makes "events": the journal.
func newEventsCommand() *cobra.Command {
	var t target
	var w window
	var kinds []string
	c := &cobra.Command{
		Use:   "events",
		Short: "Shows the journal of a process: drops, gaps, paths, memberships, also of one that has ended",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(c *cobra.Command, _ []string) error { return events(c, &t, &w, kinds) },
	}
	t.flags(c.Flags())
	w.flags(c.Flags(), 2*time.Second)
	c.Flags().StringSliceVar(&kinds, "kind", nil, "only these kinds: drop, poll_gap, path, link, join, leave, feed_gap, recovery, zero, note")
	return c
}

// endOfTime is behind all events.
var endOfTime = time.Unix(1<<40, 0)

// events prints the events of the process's journal that the window and the kinds select (no kinds: all), the oldest first.
func events(c *cobra.Command, t *target, w *window, kinds []string) error {
	if err := w.check(); err != nil {
		return err
	}
	r, err := t.open()
	if err != nil {
		return err
	}
	defer r.Close()
	p, err := r.Process()
	if err != nil {
		return err
	}
	for _, k := range kinds {
		if !slices.Contains(r.Description().Kinds, k) {
			return usageError{fmt.Errorf("kind %q: the process has %v", k, r.Description().Kinds)}
		}
	}
	from, to := time.Time{}, endOfTime
	if w.at != "" {
		if from, to, err = w.bounds(p); err != nil {
			return err
		}
	}
	return writeEvents(c.OutOrStdout(), r, from, to, kinds, t.json)
}

// writeEvents writes the events between two times, of some kinds (none: all), the oldest first.
func writeEvents(out io.Writer, r *stats.Reader, from, to time.Time, kinds []string, asJSON bool) error {
	for _, e := range r.Events() {
		if e.Time.Before(from) || e.Time.After(to) || len(kinds) > 0 && !slices.Contains(kinds, e.Kind) {
			continue
		}
		if asJSON {
			if err := json.NewEncoder(out).Encode(e); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(out, "%s %-9s %s\n", e.Time.Format("2006-01-02 15:04:05.000000"), e.Kind, sentence(&e))
	}
	return nil
}

// sentence is an event in words: for a drop the counter, how much it grew and what it means; for a gap its length; then the block.
func sentence(e *stats.Event) string {
	text := e.Text
	switch e.Kind {
	case stats.EventDrop.String():
		text = fmt.Sprintf("%s +%d", text, e.Count)
		for _, s := range stats.Sections() {
			if row := s.Find(e.Text); row != nil && row.Loss {
				text += ": " + row.Help
				break
			}
		}
	case stats.EventPollGap.String():
		text = fmt.Sprintf("%v between two polls of %s", time.Duration(e.Count), text)
	}
	if e.Of != "" {
		text += " (" + e.Of + ")"
	}
	return text
}

// window is a time and how much around it.
type window struct {
	at     string
	around time.Duration
}

func (w *window) flags(f *pflag.FlagSet, around time.Duration) {
	f.StringVar(&w.at, "at", "", "around this time: 09:30:00, 09:30:00.25, or with a date 2006-01-02T09:30:00")
	f.DurationVar(&w.around, "window", around, "how much before and after it; without --at, before now or the end of the process")
}

// openWindow opens the file of the process, and says from when to when the window goes in it.
func (t *target) openWindow(w *window) (r *stats.Reader, from, to time.Time, err error) {
	if err = w.check(); err != nil {
		return nil, from, to, err
	}
	if r, err = t.open(); err != nil {
		return nil, from, to, err
	}
	p, err := r.Process()
	if err == nil {
		from, to, err = w.bounds(p)
	}
	if err != nil {
		_ = r.Close()
		return nil, from, to, err
	}
	return r, from, to, nil
}

// check says what is wrong with the window, before a process is looked for.
func (w *window) check() error {
	if _, _, err := w.bounds(stats.Process{}); err != nil {
		return usageError{err}
	}
	return nil
}

// bounds is the window's begin and end, of a window that was checked. A time of day is the last one there was while the process ran.
func (w *window) bounds(p stats.Process) (from, to time.Time, err error) {
	if w.around < 0 {
		return from, to, fmt.Errorf("window %v: want 0 or more", w.around)
	}
	if w.at == "" {
		return p.Last.Add(-w.around), p.Last.Add(time.Second), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05"} {
		if t, e := time.ParseInLocation(layout, w.at, time.Local); e == nil {
			return t.Add(-w.around), t.Add(w.around), nil
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if t, e := time.ParseInLocation(layout, w.at, time.Local); e == nil {
			y, m, d := p.Last.Date()
			t = time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.Local)
			if t.After(p.Last.Add(w.around)) {
				t = t.AddDate(0, 0, -1)
			}
			return t.Add(-w.around), t.Add(w.around), nil
		}
	}
	return from, to, fmt.Errorf("time %q: want 09:30:00, 09:30:00.25, or 2006-01-02T09:30:00", w.at)
}
