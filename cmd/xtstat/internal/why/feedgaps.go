package why

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/socketxtreme/socketxtreme/stats"
)

// sincePattern finds in the text of a gap in a feed how long before it the last message came.
var sincePattern = regexp.MustCompile(` since (\S+):`)

// feedGaps are messages that a feed's lines did not bring.
func feedGaps(e *Evidence) (found []Finding) {
	for i := range e.Events {
		x := &e.Events[i]
		if x.Kind != stats.EventFeedGap.String() {
			continue
		}
		begin, exact := x.Time, false
		if m := sincePattern.FindStringSubmatch(x.Text); m != nil {
			if d, err := time.ParseDuration(m[1]); err == nil {
				begin, exact = x.Time.Add(-d), true
			}
		}
		if n := len(found); n > 0 && begin.Sub(found[n-1].end()) <= pause && exact == found[n-1].exact {
			f := &found[n-1]
			f.Count, f.Until, f.Evidence = f.Count+x.Count, x.Time, append(f.Evidence, "journal: feed_gap "+x.Text)
			continue
		}
		f := Finding{kind: aboutFeed, exact: exact, Cause: x.Text, Count: x.Count, Unit: "messages", Time: begin,
			Evidence: []string{"journal: feed_gap " + x.Text}}
		if exact {
			f.Until = x.Time
		}
		found = append(found, f)
	}
	return found
}

// placeFeedGaps says of each gap in a feed where its messages were lost: upstream, if nothing on this host explains it. Beside a loss of this
// host it is not known whether that is the cause. Findings of samples, whose times are seconds, get the time of the gaps that follow from them.
func placeFeedGaps(e *Evidence, found []Finding) {
	for i := range found {
		f := &found[i]
		if f.kind != aboutFeed {
			continue
		}
		of := causeOf(found, i)
		switch {
		case of < 0:
			f.Place, f.Cause = Upstream, "the sender or the network lost messages, and nothing was lost on this host: "+f.Cause
			f.Evidence = append(f.Evidence, e.received()...)
		case found[of].Place == Upstream:
			f.Place, f.Cause = Upstream, "messages of a feed are missing at that time: "+f.Cause
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
			f.narrowed.add(span{gap.Time, gap.Until})
		}
	}
	for i := range found {
		if f := &found[i]; !f.narrowed.from.IsZero() {
			f.Time, f.Until, f.Since = f.narrowed.from, f.narrowed.to, time.Time{}
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
