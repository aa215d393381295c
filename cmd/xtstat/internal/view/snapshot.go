package view

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/socketxtreme/socketxtreme/stats"
)

// Snapshot is what a process had published at a moment, or what that was per second.
type Snapshot struct {
	Process  stats.Process
	Time     time.Time
	Interval time.Duration           // of rates; 0: these are totals
	Blocks   map[string][]stats.View // by section
	Left     map[string]uint64       // by section: blocks that ever found no room in the file
}

// Take reads a process's file; of sockets only those that pick takes, nil for all.
func Take(r *stats.Reader, now time.Time, pick Sockets) (*Snapshot, error) {
	p, err := r.Process()
	if err != nil {
		return nil, err
	}
	s := &Snapshot{Process: p, Time: now, Blocks: map[string][]stats.View{}, Left: map[string]uint64{}}
	for _, section := range r.Description().Sections {
		list := r.Blocks(section.Name)
		if section.Name == stats.Sockets {
			list = slices.DeleteFunc(list, func(v stats.View) bool { return !pick.Has(v.ID) })
			slices.SortStableFunc(list, func(a, b stats.View) int { return int(a.ID) - int(b.ID) })
		}
		if section.Name == stats.Pollers {
			addSleeps(list, s.end())
		}
		s.Blocks[section.Name], s.Left[section.Name] = list, r.Unpublished(section.Name)
	}
	return s, nil
}

// end is until when the process has counted: the present, or the last sign of life of one that has ended.
func (s *Snapshot) end() time.Time {
	if s.Process.Live {
		return s.Time
	}
	return s.Process.Last
}

// addSleeps adds the sleeps under way to those that have ended, so that a poller that nobody wakes is not taken for one that polls.
func addSleeps(pollers []stats.View, now time.Time) {
	for _, v := range pollers {
		if since := time.Unix(0, int64(v.Totals["asleep_since"])); v.Totals["asleep_since"] != 0 && now.After(since) {
			v.Totals["sleep_time"] += uint64(now.Sub(since))
		}
	}
}

// Rates is s with totals per second since an earlier one. What came meanwhile is compared with zero.
func (s *Snapshot) Rates(before *Snapshot) *Snapshot {
	d := *s
	d.Interval = max(s.Time.Sub(before.Time), time.Microsecond)
	d.Blocks = map[string][]stats.View{}
	for name, list := range s.Blocks {
		for _, v := range list {
			was := find(before.Blocks[name], &v)
			table := stats.SectionOf(name)
			rates := v
			rates.Totals, rates.Baseline = maps.Clone(v.Totals), nil
			for counter, total := range v.Totals {
				if table != nil {
					if row := table.Find(counter); row != nil && row.Type != stats.Total {
						continue
					}
				}
				rates.Totals[counter] = perSecond(total-min(total, was[counter]), d.Interval)
			}
			d.Blocks[name] = append(d.Blocks[name], rates)
		}
	}
	return &d
}

func perSecond(n uint64, d time.Duration) uint64 { return uint64(float64(n)/d.Seconds() + 0.5) }

// find is the counters that a block had before: the same one, not another in its place.
func find(list []stats.View, v *stats.View) map[string]uint64 {
	for i := range list {
		if list[i].Index == v.Index && list[i].Opened.Equal(v.Opened) {
			return list[i].Totals
		}
	}
	return nil
}

// suffix is what rates have behind their unit.
func (s *Snapshot) suffix() string {
	if s.Interval > 0 {
		return "/s"
	}
	return ""
}

// block is the block of a section with an index; an empty one if there is none.
func (s *Snapshot) block(section string, index int) *stats.View {
	for i := range s.Blocks[section] {
		if v := &s.Blocks[section][i]; v.Index == index {
			return v
		}
	}
	return &stats.View{}
}

// children are the blocks of a section that belong to another one.
func (s *Snapshot) children(section string, parent int) (list []stats.View) {
	for _, v := range s.Blocks[section] {
		if v.Parent == parent {
			list = append(list, v)
		}
	}
	return list
}

// hits is the share of a ring's polls that returned something, in percent.
func hits(ring *stats.View) float64 {
	if polls := ring.Value("polls"); polls > 0 {
		return 100 * float64(ring.Value("hits")) / float64(polls)
	}
	return 0
}

// Sockets says which sockets are shown; nil: all.
type Sockets [][2]uint64

// Has reports whether a socket is shown.
func (x Sockets) Has(id uint64) bool {
	return x == nil || slices.ContainsFunc(x, func(r [2]uint64) bool { return r[0] <= id && id <= r[1] })
}

// ParseSockets reads ids and ranges: "4-16,1,9".
func ParseSockets(text string) (Sockets, error) {
	list := Sockets{}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		a, err := strconv.ParseUint(strings.TrimSpace(from), 10, 31)
		b := a
		if err == nil && isRange {
			b, err = strconv.ParseUint(strings.TrimSpace(to), 10, 31)
		}
		if err != nil {
			return nil, fmt.Errorf("sockets %q: %q is neither a number nor a range such as 4-16", text, part)
		}
		list = append(list, [2]uint64{min(a, b), max(a, b)})
	}
	return list, nil
}
