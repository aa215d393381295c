package command

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/socketxtreme/socketxtreme/cmd/xtstat/internal/why"
	"github.com/socketxtreme/socketxtreme/stats"
)

// newHistoryCommand makes "history": the samples of the last quarter of an hour.
func newHistoryCommand() *cobra.Command {
	var t target
	var w window
	c := &cobra.Command{
		Use:   "history",
		Short: "Shows a process second by second, for the last 15 minutes, also one that has ended",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(c *cobra.Command, _ []string) error { return history(c, &t, &w) },
	}
	t.flags(c.Flags())
	w.flags(c.Flags(), time.Minute, time.Minute)
	return c
}

// historyColumns are what history prints: a total as its rate, a peak as it is.
var historyColumns = []struct {
	title, column string
	width         int
	per           float64
	peak          bool
}{
	{"rx pkt/s", "ring.packets", 10, 1, false}, {"rx KB/s", "ring.bytes", 9, 1024, false},
	{"tx msg/s", "ring.sent_messages", 10, 1, false}, {"tx KB/s", "ring.sent_bytes", 9, 1024, false},
	{"batch", "ring.batch", 6, 1, true}, {"queue", "ring.queue", 6, 1, true}, {"buffers", "poller.buffers_used_peak", 8, 1, true},
	{"gap us", "poller.poll_gap", 9, 1000, true},
}

// history prints the samples in the window.
func history(c *cobra.Command, t *target, w *window) error {
	r, from, to, err := t.openWindow(w, c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer r.Close()
	return writeHistory(c.OutOrStdout(), r, from, to, t.json)
}

// writeHistory writes a line for each sample between two times: totals as rates, peaks as they are, and what was lost, as why counts it.
func writeHistory(out io.Writer, r *stats.Reader, from, to time.Time, asJSON bool) error {
	if !asJSON {
		fmt.Fprintf(out, "%-12s", "until")
		for _, x := range historyColumns {
			fmt.Fprintf(out, " %*s", x.width, x.title)
		}
		fmt.Fprintf(out, " %8s\n", "lost")
	}
	samples := r.Samples()
	lost := why.Lost(samples)
	for i := range samples {
		s := &samples[i]
		if s.Time.Before(from) || s.Time.Add(-s.Interval).After(to) {
			continue
		}
		var before map[string]uint64
		switch {
		case i > 0:
			before = samples[i-1].Values
		case s.Number == 1:
			before = why.BeginOf(s).Values
		default:
			continue // what was before it is gone
		}
		if asJSON {
			if err := json.NewEncoder(out).Encode(sampleJSON(s, before, lost[i])); err != nil {
				return err
			}
			continue
		}
		fmt.Fprint(out, s.Time.Format("15:04:05.000"))
		for _, x := range historyColumns {
			v := float64(s.Values[x.column])
			if !x.peak {
				v = float64(since(s.Values[x.column], before[x.column])) / s.Interval.Seconds()
			}
			fmt.Fprintf(out, " %*.0f", x.width, v/x.per)
		}
		fmt.Fprintf(out, " %8d\n", lost[i])
	}
	return nil
}

func since(now, before uint64) uint64 { return now - min(now, before) }

// sampleJSON has totals as what was counted in the interval, gauges and peaks as they are.
func sampleJSON(s *stats.Sample, before map[string]uint64, lost uint64) any {
	counted, levels := map[string]uint64{}, map[string]uint64{}
	for _, section := range stats.Sections() {
		for _, row := range section.Counters {
			name := section.Name + "." + row.Name
			v, ok := s.Values[name]
			switch {
			case !ok:
			case row.Type == stats.Total:
				counted[name] = since(v, before[name])
			default:
				levels[name] = v
			}
		}
	}
	return struct {
		Time    time.Time         `json:"time"`
		Seconds float64           `json:"seconds"`
		Counted map[string]uint64 `json:"counted"`
		Levels  map[string]uint64 `json:"levels"`
		Lost    uint64            `json:"lost"`
	}{s.Time, s.Interval.Seconds(), counted, levels, lost}
}
