package why

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// kind is what a finding is about, for the table of consequences.
type kind uint8

const (
	aboutLoss        kind = iota // other losses of this host
	aboutLink                    // an interface was down
	aboutProgram                 // the steering program was displaced
	aboutGroup                   // a group was left, a membership lost
	aboutQueue                   // packets came by a queue that no ring serves
	aboutRing                    // the loop did not poll, or no buffer lay ready
	aboutKernel                  // what the kernel's side of sockets lost
	aboutUnwanted                // multicast that no socket wanted
	aboutFeed                    // messages of a feed are missing
	aboutSends                   // what could not be sent: no feed misses it
	aboutCallback                // what the program's own receive callbacks dropped
	aboutConnections             // connections that were refused
	aboutOthers                  // datagrams that nobody here wanted, or losses of the whole machine: they explain nothing of this process
)

// isOfReceived reports whether findings of the kind may be why messages of a feed are missing.
func (k kind) isOfReceived() bool {
	return !slices.Contains([]kind{aboutFeed, aboutSends, aboutConnections, aboutOthers}, k)
}

// consequences are, by the kind of a cause, the kinds of findings that follow from it when they are at the same time. What is missing in feeds
// follows from each loss.
var consequences = map[kind][]kind{
	aboutLink:    {aboutProgram, aboutGroup, aboutQueue, aboutRing, aboutUnwanted, aboutKernel, aboutLoss, aboutSends},
	aboutProgram: {aboutQueue, aboutKernel, aboutRing, aboutUnwanted},
	aboutGroup:   {aboutUnwanted},
	aboutQueue:   {aboutKernel},
}

// relate puts findings in order: each cause, that of the largest loss first, and behind it what follows from it. What was lost because this
// machine did other things stands last. What callbacks dropped weighs as much as follows from it: they may be filters. It numbers the findings.
func relate(found []Finding) []Finding {
	for i := range found {
		found[i].cause = causeOf(found, i)
	}
	addUp(found)
	weight := func(i int) uint64 { // of a cause: what it has lost, in packets or in messages of feeds
		most := uint64(0)
		for j := range found {
			if f := &found[j]; (j == i || f.cause == i) && f.kind != aboutOthers && f.kind != aboutCallback {
				most = max(most, f.Count)
			}
		}
		return most
	}
	order := make([]int, len(found))
	for i := range order {
		order[i] = i
	}
	root := func(i int) int {
		if found[i].cause >= 0 {
			return found[i].cause
		}
		return i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := root(a), root(b)
		if x != y {
			return cmp.Or(cmp.Compare(busy(&found[x]), busy(&found[y])), cmp.Compare(weight(y), weight(x)), found[x].begin().Compare(found[y].begin()), cmp.Compare(x, y))
		}
		return cmp.Or(cmp.Compare(rank(&found[a]), rank(&found[b])), found[a].begin().Compare(found[b].begin()))
	})
	numbers := make([]int, len(found))
	for n, i := range order {
		numbers[i] = n + 1
	}
	list := make([]Finding, 0, len(found))
	for _, i := range order {
		f := found[i]
		f.Number = numbers[i]
		if f.cause >= 0 {
			f.BecauseOf = numbers[f.cause]
		}
		list = append(list, f)
	}
	nameParts(list)
	nameDiverted(list)
	countByFeeds(list)
	joinCounts(list)
	return list
}

// countByFeeds gives a cause that no counter of this host counts the messages of feeds that are missing because of it.
func countByFeeds(list []Finding) {
	for i := range list {
		f := &list[i]
		if f.BecauseOf != 0 || f.Count != 0 || f.kind != aboutLink && f.kind != aboutGroup {
			continue
		}
		for j := range list {
			if x := &list[j]; x.BecauseOf == f.Number && x.kind == aboutFeed {
				f.Count, f.Unit, f.Packets = f.Count+x.Count, x.Unit, f.Packets+x.Packets
				f.Evidence = append(f.Evidence, fmt.Sprintf("counted by %d, which follows from it: %d %s of a feed", x.Number, x.Count, x.Unit))
			}
		}
		if f.Count == 0 && f.kind == aboutLink {
			f.Evidence = append(f.Evidence, "no counter of this host has what did not come, and no feed has noted a gap at that time")
		}
	}
}

// addUp gives a group that was left the sum of what was lost because of it: what waited in the ring, and what the kernel dropped meanwhile.
func addUp(found []Finding) {
	for i := range found {
		f := &found[i]
		if f.cause < 0 || found[f.cause].kind != aboutGroup || f.kind != aboutUnwanted {
			continue
		}
		group := &found[f.cause]
		group.Count, group.Unit = group.Count+f.Count, "packets"
	}
}

// nameParts says of which findings the count of a group that was left is the sum.
func nameParts(list []Finding) {
	for i := range list {
		f := &list[i]
		var parts []int
		for j := range list {
			if x := &list[j]; f.kind == aboutGroup && x.kind == aboutUnwanted && x.BecauseOf == f.Number {
				parts = append(parts, x.Number)
			}
		}
		switch {
		case len(parts) > 1:
			f.Evidence = append(f.Evidence, "the sum of "+enumerate(parts))
		case len(parts) == 1:
			f.Evidence = append(f.Evidence, "counted by "+enumerate(parts))
		}
	}
}

// nameDiverted says of frames without a ring that they are among the packets that came through the kernel while the program was displaced: they
// met the one that was attached again, which had no ring yet. Before there was no program, and nothing counted.
func nameDiverted(list []Finding) {
	for i := range list {
		f := &list[i]
		if f.kind != aboutQueue || f.BecauseOf == 0 {
			continue
		}
		for j := range list {
			x := &list[j]
			if x.kind != aboutProgram || x.Number != f.BecauseOf && x.BecauseOf != f.BecauseOf || f.Count > x.Count {
				continue
			}
			f.Cause = fmt.Sprintf("frames came before the program that was attached again had its ring: they are among the %d packets of %d", x.Count, x.Number)
			f.Evidence = slices.DeleteFunc(f.Evidence, func(s string) bool { return slices.Contains(x.Evidence, s) })
		}
	}
}

// busy is 1 of a finding that blames a gap in which the machine kept the loop from polling, else 0.
func busy(f *Finding) int {
	if !f.gapEnd.IsZero() && f.Place == Kernel {
		return 1
	}
	return 0
}

// rank is where a finding stands among those of one cause: the cause, other counts, gaps in feeds.
func rank(f *Finding) int {
	switch {
	case f.cause < 0:
		return 0
	case f.kind == aboutFeed:
		return 2
	}
	return 1
}

// causeOf is the index of the finding from which one follows; -1: none is known.
func causeOf(found []Finding, i int) int {
	f := &found[i]
	best := -1
	for j := range found {
		x := &found[j]
		if j == i || !x.explains(f) {
			continue
		}
		// Of several the one that explains most, a link before its program; of equal ones the one with the exact time, then the earlier one.
		if best < 0 || x.precedes(&found[best]) {
			best = j
		}
	}
	for best >= 0 { // the cause of the cause
		next := -1
		for j := range found {
			if j != best && found[j].explains(&found[best]) && (next < 0 || found[j].precedes(&found[next])) {
				next = j
			}
		}
		if next < 0 {
			break
		}
		best = next
	}
	return best
}

// precedes reports whether the finding rather than another one is the cause of a third.
func (f *Finding) precedes(x *Finding) bool {
	if a, b := len(consequences[f.kind]), len(consequences[x.kind]); a != b {
		return a > b
	}
	if f.Time.IsZero() != x.Time.IsZero() {
		return x.Time.IsZero()
	}
	return f.begin().Before(x.begin())
}

// explains reports whether another finding follows from this one.
func (f *Finding) explains(x *Finding) bool {
	if x.kind == aboutFeed {
		return f.kind.isOfReceived() && !slices.Contains(f.spared, x.of) && f.covers(x)
	}
	if slices.Contains(consequences[f.kind], x.kind) {
		return f.touches(x, time.Second)
	}
	// Two things that were full because of one gap between polls have one cause.
	if f.kind != aboutRing || x.kind != aboutRing || f.gapEnd.IsZero() || !f.gapEnd.Equal(x.gapEnd) {
		return false
	}
	return cmp.Or(f.begin().Compare(x.begin()), cmp.Compare(x.Count, f.Count)) < 0
}

// late is how long after a loss the journal may have it, on a machine that is busy.
const late = 50 * time.Millisecond

// touches reports whether another finding is at the time of this one, or behind it by at most after.
func (f *Finding) touches(x *Finding, after time.Duration) bool {
	return !f.earliest().Add(-late).After(x.end()) && !f.end().Add(after).Before(x.earliest())
}

// Summary says in a line how the findings are ordered; empty for a single one.
func Summary(list []Finding) string {
	var causes, machine []int // their numbers
	gaps, lost := false, false
	for i := range list {
		f := &list[i]
		gaps = gaps || f.kind == aboutFeed
		if f.BecauseOf == 0 {
			causes = append(causes, f.Number)
			if busy(f) > 0 {
				machine = append(machine, f.Number)
			}
		} else if f.kind == aboutFeed && slices.Contains(machine, f.BecauseOf) {
			lost = true
		}
	}
	text := ""
	switch {
	case len(list) <= 1:
		return ""
	case len(causes) == 1:
		return "one cause, and what follows from it"
	case len(causes) == len(list):
		text = fmt.Sprintf("%d findings that do not follow from each other, that of the largest loss first", len(list))
	default:
		text = fmt.Sprintf("%d findings; %s are causes, that of the largest loss first; behind each what follows from it", len(list), enumerate(causes))
	}
	if len(machine) > 0 {
		text += fmt.Sprintf("; finding%s %s: this machine was busy", plural(len(machine)), enumerate(machine))
		if gaps && !lost {
			text += ", no feed has a gap then"
		}
	}
	return text
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// enumerate is "1, 2 and 3".
func enumerate(numbers []int) (text string) {
	for i, n := range numbers {
		switch {
		case i > 0 && i == len(numbers)-1:
			text += " and "
		case i > 0:
			text += ", "
		}
		text += strconv.Itoa(n)
	}
	return text
}
