package command

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/socketxtreme/socketxtreme/stats"
)

// longGap is the length from which a gap between two polls has a line of its own.
const longGap = 100 * time.Millisecond

// gapFold writes gaps between polls that follow each other in the journal as one line, so that the other events stay in sight.
type gapFold struct {
	out  io.Writer
	gaps []stats.Event // in the order of their times, not written yet
}

// add takes an event. It reports whether the event is one of a fold, which is written later.
func (f *gapFold) add(e *stats.Event) bool {
	if e.Kind != stats.EventPollGap.String() || time.Duration(e.Count) >= longGap {
		return false
	}
	if n := len(f.gaps); n > 0 && f.gaps[n-1].Of != e.Of {
		f.flush()
	}
	f.gaps = append(f.gaps, *e)
	return true
}

// flush writes the gaps that were added since the last call.
func (f *gapFold) flush() {
	switch n := len(f.gaps); {
	case n == 0:
	case n == 1:
		writeEvent(f.out, &f.gaps[0])
	default:
		first, last := &f.gaps[0], &f.gaps[n-1]
		longest := slices.MaxFunc(f.gaps, func(a, b stats.Event) int { return int(a.Count) - int(b.Count) })
		fmt.Fprintf(f.out, "%s %-9s %d gaps between polls of %s until %s (%s); the longest: %v at %s\n", first.Time.Format(eventLayout), first.Kind, n, longest.Name,
			last.Time.Format(timeLayout), f.causes(), time.Duration(longest.Count).Round(time.Microsecond), longest.Time.Format(timeLayout))
	}
	f.gaps = f.gaps[:0]
}

// causes counts the gaps by their causes, the most frequent first.
func (f *gapFold) causes() string {
	var names []string
	count := map[string]int{}
	for i := range f.gaps {
		code := f.gaps[i].Code
		if count[code]++; count[code] == 1 {
			names = append(names, code)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return count[b] - count[a] })
	for i, name := range names {
		names[i] = fmt.Sprint(count[name], " ", name)
	}
	return strings.Join(names, ", ")
}
