package why

import (
	"fmt"
	"time"

	"github.com/socketxtreme/socketxtreme/stats"
)

// estimate is about how many packets of each line so many messages are: at the rate of all lines in the window. 0: the program publishes none.
func (e *Evidence) estimate(messages uint64) uint64 {
	grew := func(counter string) uint64 { return e.Deltas[stats.Lines+"."+counter] }
	packets, all := grew("segments"), grew("first_messages")+grew("duplicate_messages")
	if packets == 0 || all == 0 || messages == 0 {
		return 0
	}
	return max(1, uint64(float64(messages)*float64(packets)/float64(all)+0.5))
}

// certain says of each gap in a feed whether it follows from its cause for certain: times enclose each other, and counts are about the same. A
// few messages that the sender skips in a moment in which much is lost here stay uncertain, and so does more than was lost here.
func (e *Evidence) certain(found []Finding) []bool {
	list, of := make([]bool, len(found)), make([]int, len(found))
	packets := make([]uint64, len(found)) // by cause: of all gaps that follow from it
	for i := range found {
		f := &found[i]
		if of[i] = -1; f.kind != aboutFeed {
			continue
		}
		f.Packets = e.estimate(f.Count)
		if of[i] = causeOf(found, i); of[i] >= 0 {
			packets[of[i]] += f.Packets
		}
	}
	for i := range found {
		if of[i] < 0 {
			continue
		}
		f, cause := &found[i], &found[of[i]]
		switch cause.kind {
		case aboutRing: // the loop did not poll
			list[i] = !cause.gapEnd.IsZero() && f.within(cause) && 2*packets[of[i]] >= cause.Count && !exceeds(packets[of[i]], cause.Count)
		case aboutLink, aboutGroup: // nothing counts what did not come
			list[i] = f.exact && f.sameTime(cause)
		}
	}
	return list
}

// exceeds reports whether packets are more than frames that were lost, although they are an estimate.
func exceeds(packets, frames uint64) bool { return packets > frames+frames/8+1 }

// within reports whether a gap in a feed lies in the time of its cause, and may be noticed some milliseconds behind it.
func (f *Finding) within(cause *Finding) bool {
	return f.exact && !f.begin().Before(cause.earliest().Add(-late/5)) && !f.end().After(cause.end().Add(late))
}

// sameTime reports whether two findings have nine tenths of their time in common, or half and begin and end within two looks of the journal.
func (f *Finding) sameTime(x *Finding) bool {
	const look = 10 * time.Millisecond
	if x.Until.IsZero() {
		return false
	}
	all := span{f.begin(), f.end()}
	all.add(span{x.begin(), x.end()})
	apart := f.begin().Sub(x.begin()).Abs() + f.end().Sub(x.end()).Abs()
	return apart <= max(2*look, all.to.Sub(all.from)/10) && 2*apart < all.to.Sub(all.from)
}

// joinCounts says how the messages that feeds miss and the frames that their cause has lost belong together, where the counts differ.
func joinCounts(list []Finding) {
	for i := range list {
		cause := &list[i]
		if cause.kind == aboutFeed || cause.Count == 0 || cause.Unit == "messages" || cause.kind == aboutGroup || cause.Place == Upstream {
			continue
		}
		var first *Finding
		packets := uint64(0)
		for j := range list {
			if x := &list[j]; x.BecauseOf == cause.Number && x.kind == aboutFeed && x.Packets > 0 {
				if packets += x.Packets; first == nil {
					first = x
				}
			}
		}
		switch {
		case first == nil:
		case exceeds(packets, cause.Count):
			first.Evidence = append(first.Evidence, fmt.Sprintf("more than the %d %s of %d: some may be missing for another reason", cause.Count, cause.Unit, cause.Number))
		case exceeds(cause.Count, packets):
			first.Evidence = append(first.Evidence, fmt.Sprintf("the %d %s of %d include other traffic", cause.Count, cause.Unit, cause.Number))
		}
	}
}
