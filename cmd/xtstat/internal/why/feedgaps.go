package why

import (
	"fmt"
	"slices"
	"time"

	"github.com/socketxtreme/socketxtreme/stats"
)

// feedGaps are messages that a feed's lines did not bring. Those of one feed that follow each other are one finding.
func feedGaps(e *Evidence) (found []Finding) {
	for i := range e.Events {
		x := &e.Events[i]
		if x.Kind != stats.EventFeedGap.String() {
			continue
		}
		exact := x.Earliest.Before(x.Time) // the program has told when the last packet in front of the gap came
		if n := lastGapOf(found, x.Name); n >= 0 && x.Earliest.Sub(found[n].end()) <= pause && exact == found[n].exact {
			f := &found[n]
			f.Count, f.Until, f.Evidence = f.Count+x.Count, x.End, append(f.Evidence, "journal: feed_gap "+x.Text)
			continue
		}
		f := Finding{kind: aboutFeed, of: x.Name, exact: exact, Cause: x.Text, Count: x.Count, Unit: "messages", Time: x.Time,
			Evidence: []string{"journal: feed_gap " + x.Text}}
		if exact {
			f.Time, f.Until, f.Earliest, f.Latest = beginOfGap(x), x.End, x.Earliest, x.Latest
		}
		found = append(found, f)
	}
	return found
}

// beginOfGap is when the first message of a gap was lost. Between the last packet in front of it (Earliest) and the first one behind it (End)
// the sender may have sent all the time, or been silent for a part of it. Latest is so long before End as the sender takes for that many
// messages at the feed's pace. If that is most of the time the gap begins at Earliest, else at Latest.
func beginOfGap(x *stats.Event) time.Time {
	if x.Latest.Sub(x.Earliest) > x.End.Sub(x.Latest) {
		return x.Latest
	}
	return x.Earliest
}

// lastGapOf is the index of the last finding of a feed; -1: there is none.
func lastGapOf(found []Finding, feed string) int {
	for i := len(found) - 1; i >= 0; i-- {
		if found[i].of == feed {
			return i
		}
	}
	return -1
}

// placeFeedGaps says of each gap in a feed where its messages were lost: upstream, if nothing on this host explains it and none of its
// counters is missing. Beside a loss of this host it is not known whether that is the cause, unless sockets or counts tell.
func placeFeedGaps(e *Evidence, found []Finding) {
	certain := e.certain(found)
	for i := range found {
		f := &found[i]
		if f.kind != aboutFeed {
			continue
		}
		of := causeOf(found, i)
		switch {
		case of < 0 && e.Homeless > 0:
			f.Place, f.Cause = Unknown, "messages of a feed are missing at that time, and "+e.homeless()+": "+f.Cause
		case of < 0:
			f.Place, f.Cause = Upstream, "the sender or the network lost messages, and nothing was lost on this host: "+f.Cause
			f.Evidence = append(f.Evidence, e.received()...)
		case found[of].Place == Upstream:
			f.Place, f.Cause = Upstream, "messages of a feed are missing at that time: "+f.Cause
		case slices.Contains(found[of].hit, f.of), certain[i]:
			f.Place, f.Cause = found[of].Place, "messages of the feed were lost there: "+f.Cause
		default:
			f.Place, f.Cause = Unknown, "messages of a feed are missing at that time: "+f.Cause
		}
	}
}

// narrow gives the findings of samples, whose times are seconds, the time of the gaps in feeds that nothing else explains.
func narrow(found []Finding) {
	for i := range found {
		gap := &found[i]
		if gap.kind != aboutFeed || !gap.exact || slices.ContainsFunc(found, func(f Finding) bool { return !f.Time.IsZero() && f.explains(gap) }) {
			continue
		}
		for j := range found {
			f := &found[j]
			if !f.Time.IsZero() || !f.explains(gap) {
				continue
			}
			if f.narrowed.from.IsZero() {
				f.Evidence = append(f.Evidence, fmt.Sprintf("counted between %s and %s; a feed has a gap in that time",
					f.Since.Format("15:04:05.000"), f.Until.Format("15:04:05.000")))
			}
			if f.narrowed.from.IsZero() || gap.Time.Before(f.narrowed.from) {
				f.Earliest, f.Latest = gap.Earliest, gap.Latest
			}
			f.narrowed.add(span{gap.Time, gap.Until})
		}
	}
	for i := range found {
		if f := &found[i]; !f.narrowed.from.IsZero() {
			f.Time, f.Until, f.Since = f.narrowed.from, f.narrowed.to, time.Time{}
		}
	}
}

// narrowLooks gives findings of drops, which are between two looks at a counter, the time of the gaps in feeds that follow from them, if they
// begin between the looks of the first drop, and end after the first look of the last one. Their packets came up to counted before the loop
// polled and counted them. A finding that blames a gap between polls has the time of that gap.
func narrowLooks(found []Finding) {
	const counted = 10 * time.Millisecond
	for i := range found {
		f := &found[i]
		if f.dropped == nil || f.kind == aboutOthers || !f.gapEnd.IsZero() {
			continue
		}
		var first *Finding // of the gaps
		var s span
		for j := range found {
			gap := &found[j]
			if gap.kind != aboutFeed || !gap.exact || !f.explains(gap) || gap.Time.Before(f.Earliest.Add(-counted)) {
				continue
			}
			if first == nil || gap.Time.Before(first.Time) {
				first = gap
			}
			s.add(span{gap.Time, gap.Until})
		}
		if first == nil || s.from.After(f.Latest) || s.to.Before(f.lastLook) {
			continue
		}
		f.Evidence = append(f.Evidence, fmt.Sprintf("counted between %s and %s; a feed has a gap in that time", f.Earliest.Format("15:04:05.000"),
			f.Until.Format("15:04:05.000")))
		f.Time = first.Time
		switch {
		case first.Earliest.After(f.Earliest):
			f.Earliest = first.Earliest
		case f.Earliest.After(f.Time):
			f.Earliest = f.Time
		}
		if first.Latest.Before(f.Latest) {
			f.Latest = first.Latest
		}
		if s.to.Before(f.Until) {
			f.Until = s.to
		}
	}
}

// beginLinks gives findings of interfaces that went down the begin of the gap in a feed that follows: the kernel tells of such an interface when
// it has waited for all that was under way in it, some ten milliseconds after the last frame.
func beginLinks(found []Finding) {
	for i := range found {
		f := &found[i]
		if f.kind != aboutLink {
			continue
		}
		told := f.Time
		for j := range found {
			gap := &found[j]
			if gap.kind == aboutFeed && gap.exact && f.explains(gap) && gap.Time.Before(f.Time) && told.Sub(gap.Time) <= pause {
				f.Time = gap.Time
			}
		}
		if f.Time.Before(told) {
			f.Evidence = append(f.Evidence, fmt.Sprintf("the kernel told of it at %s; a feed has a gap from %s on", told.Format("15:04:05.000"),
				f.Time.Format("15:04:05.000")))
		}
	}
}

// covers reports whether what this finding is about may be why messages of a feed are missing. A gap in a feed is noticed when the next message
// comes. Where it tells since when the messages are missing the loss was between the two.
func (f *Finding) covers(gap *Finding) bool {
	if gap.exact {
		return f.touches(gap, late)
	}
	return f.touches(gap, time.Second)
}
