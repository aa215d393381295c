package command

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/socketxtreme/socketxtreme/stats"
)

// window is a time and how much around it.
type window struct {
	at     string
	around time.Duration
	recent time.Duration // in place of around, where neither --at nor --window is given
	option *pflag.Flag   // --window
}

// flags adds the options; around and recent are the defaults with --at and without.
func (w *window) flags(f *pflag.FlagSet, around, recent time.Duration) {
	w.recent = recent
	f.StringVar(&w.at, "at", "", "around this time: 09:30:00, 09:30:00.25, or with a date 2006-01-02T09:30:00")
	f.DurationVar(&w.around, "window", around, "how much before and after it; without --at, before now or the end of the process: then the default is "+length(recent))
	w.option = f.Lookup("window")
}

// length is how the default without --at is called; 0 is all there is.
func length(d time.Duration) string {
	if d == 0 {
		return "all there is"
	}
	return d.String()
}

// isGiven reports whether an option asks for a window.
func (w *window) isGiven() bool { return w.at != "" || w.option.Changed }

// openWindow opens the file of the process, and says from when to when the window goes in it.
func (t *target) openWindow(w *window, notes io.Writer) (r *stats.Reader, from, to time.Time, err error) {
	if err = w.check(); err != nil {
		return nil, from, to, err
	}
	if r, err = t.open(notes); err != nil {
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
		around := w.around
		if !w.option.Changed {
			around = w.recent
		}
		to = p.Last.Add(time.Second) // the last events of a process that was killed may be behind its last sign of life
		if now := time.Now(); to.After(now) {
			to = now
		}
		return p.Last.Add(-around), to, nil
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
