package why

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/socketxtreme/socketxtreme/stats"
)

// blameGaps is blameGap for losses that the kernel counts where the loop reads late: only gaps between polls of one loop that take at least half
// of the finding's time are the cause. The time includes gaps in front of the first look that has found a loss. A look is some 10 ms behind the
// loss at most, while the loop polls.
//
//	       gap ends at most "late" before          end
//	───────┤▒▒▒▒▒▒▒├────┼─────┤▒▒▒▒▒▒▒├────────────┼───►
//	                  begin, the first look
func (e *Evidence) blameGaps(f *Finding) bool {
	const look = 10 * time.Millisecond
	var best []*stats.Event
	var most, took time.Duration
	of := e.gapsOf(f)
	for _, poller := range slices.Sorted(maps.Keys(of)) {
		gaps := of[poller]
		sum, begin, end := time.Duration(0), f.begin(), f.end()
		all := time.Duration(0) // from the first look on, and the gaps in front of it
		for _, x := range gaps {
			sum += x.End.Sub(x.Earliest)
			if x.Earliest.Before(begin) {
				all += min(x.End.Sub(x.Earliest), begin.Sub(x.Earliest))
			}
			if x.End.After(end) {
				end = x.End
			}
		}
		if sum > most {
			best, most, took = gaps, sum, all+end.Sub(begin)
		}
	}
	if best == nil || 2*most < max(took, look) {
		return false
	}
	f.blame(best, most)
	return true
}

// gapsOf are the gaps between polls that touch a finding, by poller.
func (e *Evidence) gapsOf(f *Finding) map[string][]*stats.Event {
	of := map[string][]*stats.Event{}
	for i := range e.Events {
		x := &e.Events[i]
		if x.Kind == stats.EventPollGap.String() && !x.End.Add(late).Before(f.begin()) && !x.Earliest.After(f.end()) {
			of[x.Name] = append(of[x.Name], x)
		}
	}
	return of
}

// mostlyOf are those of some gaps whose cause took most of their time, the longest one of these, and how long they took.
func mostlyOf(gaps []*stats.Event) (longest *stats.Event, n int, took time.Duration) {
	of, sum := map[string][]*stats.Event{}, map[string]uint64{}
	for _, x := range gaps {
		of[x.Code], sum[x.Code] = append(of[x.Code], x), sum[x.Code]+x.Count
	}
	code := slices.MaxFunc(slices.Sorted(maps.Keys(of)), func(a, b string) int { return cmp.Compare(sum[a], sum[b]) })
	longest = slices.MaxFunc(of[code], func(a, b *stats.Event) int { return cmp.Compare(a.Count, b.Count) })
	return longest, len(of[code]), time.Duration(sum[code])
}

// blame puts gaps between polls in front of a finding, with their length in all and the cause that took most of it, and places the finding where
// that cause is.
func (f *Finding) blame(gaps []*stats.Event, length time.Duration) {
	x, n, took := mostlyOf(gaps)
	f.Place, f.gapEnd = blame[x.Code], x.End
	cause := x.Text
	if f.Place == Ring {
		cause = "for a reason that is not known"
	}
	number := ""
	if len(gaps) > 1 {
		number = fmt.Sprintf(" in %d gaps", len(gaps))
		cause = fmt.Sprintf("the longest %v: %s", time.Duration(x.Count).Round(time.Microsecond), cause)
		if n < len(gaps) {
			cause = fmt.Sprintf("%d of them took %v, %s", n, took.Round(time.Microsecond), cause)
		}
	}
	f.Cause = fmt.Sprintf("the loop did not poll for %v%s (%s), and %s", length.Round(time.Microsecond), number, cause, f.Cause)
	f.Evidence = append(f.Evidence, describeGap(x))
	for _, x := range gaps {
		if !f.Time.IsZero() && x.Earliest.Before(f.Time) {
			f.Time, f.Earliest, f.Latest = x.Earliest, time.Time{}, time.Time{}
		}
		if !f.Time.IsZero() && x.End.After(f.Until) { // what came until the loop polled again found the ring full
			f.Until = x.End
		}
	}
}
