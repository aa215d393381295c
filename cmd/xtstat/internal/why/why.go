// Package why finds out from a process's samples and journal what was lost at a time, where and why. The command "xtstat why" prints it.
//
// It is a list of rules. Each looks at one kind of evidence, and yields a finding with the place where the loss happened:
//
//	sender, network ─► interface ─► kernel ─► ring ─► socket ─► application
//	upstream           card         kernel    ring    socket    application
//
// What this host has counted is never called upstream, and what it has not counted is never called local: a gap in a feed beside which no
// counter of a loss has moved was there before the packets came here.
package why

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/socketxtreme/socketxtreme/stats"
)

// Place is where something was lost.
type Place string

// The places, in the order of a packet's way.
const (
	Upstream    Place = "upstream"
	Card        Place = "card"
	Kernel      Place = "kernel"
	Ring        Place = "ring"
	Socket      Place = "socket"
	Application Place = "application"
	Unknown     Place = "unknown"
)

// Finding is one thing that was lost, or that explains a loss.
type Finding struct {
	Number    int `json:"number"`               // from 1, in the order of Explain
	BecauseOf int `json:"because_of,omitempty"` // number of the finding from which this one follows; 0: this is a cause itself

	Place    Place     `json:"place"`
	Cause    string    `json:"cause"`
	Count    uint64    `json:"count"` // of what Unit says; 0: not known
	Unit     string    `json:"unit,omitempty"`
	Packets  uint64    `json:"packets,omitempty"` // of missing messages: about so many of each line, at the feed's rate; 0: not known
	Time     time.Time `json:"time,omitzero"`     // of the first event; zero where only samples tell
	Since    time.Time `json:"since,omitzero"`    // where only samples tell: it was between Since and Until
	Until    time.Time `json:"until,omitzero"`    // the end of what took a while
	Evidence []string  `json:"evidence"`

	// Earliest and Latest are between which times it began, if Time is not exact; zero: it is.
	Earliest time.Time `json:"earliest,omitzero"`
	Latest   time.Time `json:"latest,omitzero"`

	kind     kind
	of       string            // the interface, or the feed
	counter  string            // of a loss that the kernel alone counts: its counter
	cause    int               // index of the finding from which this one follows; -1: none
	exact    bool              // of a gap in a feed: Time is when the last packet in front of it came
	narrowed span              // of a finding of samples: the gaps in feeds that follow from it
	gapEnd   time.Time         // of the gap between polls that it blames; zero: none
	hit      []string          // of a finding that names its sockets: feeds that have lost packets there
	spared   []string          // and feeds whose sockets have lost none
	dropped  map[string]uint64 // what the journal has of its losses, by counter
	lastLook time.Time         // of the same: the last loss was between this and Until
}

// Evidence is what is known of a window of time.
type Evidence struct {
	From, To time.Time
	Deltas   map[string]uint64 // by column: how much each counter grew
	Before   map[string]uint64 // the columns when the window began
	Most     map[string]uint64 // of gauges and peaks the largest value in a sample of the window
	Least    map[string]uint64 // and the smallest
	Events   []stats.Event     // of the window
	Samples  int               // that cover it
	Joined   []string          // what sockets have joined, now: groups, or "GROUP from SOURCE"; may be empty
	Lines    map[string]Line   // what lines of feeds the sockets are, now, by Event.Of: "socket 3"
	Homeless int               // counters of this host for which the statistics file had no room
	JoinedOn map[string]int    // how many IPv4 groups sockets have joined on each interface, now; "": where the routing table chose it
	Listens  int               // TCP listeners of the process, now
	TextOnly bool              // the process is of an older version, whose events have a text and no other fields

	samples  []stats.Sample
	first    map[string]uint64 // the columns that the first delta is from; nil: there is none
	grew     map[string]span   // by column: in which samples
	asked    map[string]bool   // the columns that losses was asked for
	complete bool              // no event of the window was written over
	all      []stats.Sample    // and journal: those of the whole file
	journal  []stats.Event
	nothing  bool         // was lost in the window
	nearest  *stats.Event // outside of the window, of what losses leave in the journal; nil: there is none
}

// Line is a line of a feed.
type Line struct {
	Feed, Name    string
	CallbackDrops uint64 // packets that the receive callback of its socket has dropped since the socket was opened
}

// span is from the begin of the first sample in which a counter grew to the end of the last one.
type span struct{ from, to time.Time }

// add makes the span one that covers another one too.
func (s *span) add(x span) {
	if s.from.IsZero() || !x.from.IsZero() && x.from.Before(s.from) {
		s.from = x.from
	}
	if x.to.After(s.to) {
		s.to = x.to
	}
}

// Gather takes from samples and events what belongs to a window. A sample stands for the time since the one before it, the first one of the file
// for the time since the process began to count.
func Gather(samples []stats.Sample, events []stats.Event, from, to time.Time) *Evidence {
	e := &Evidence{From: from, To: to, Deltas: map[string]uint64{}, Before: map[string]uint64{}, Most: map[string]uint64{}, Least: map[string]uint64{},
		grew: map[string]span{}, all: samples, journal: events}
	e.complete = len(events) > 0 && (events[0].Time.Before(from) || slices.ContainsFunc(events, func(x stats.Event) bool { return x.Number == 1 }))
	for i := range samples {
		s := &samples[i]
		if s.Time.Before(from) || s.Time.Add(-s.Interval).After(to) {
			continue
		}
		var before map[string]uint64 // nil: not known
		switch {
		case i > 0:
			before = samples[i-1].Values
		case s.Number == 1:
			before = BeginOf(s).Values
		}
		if e.first == nil {
			e.first = before
		}
		for name, v := range s.Values {
			if e.Samples == 0 {
				e.Before[name] = before[name]
			}
			if before != nil {
				e.Deltas[name] += v - min(v, before[name])
				if v > before[name] {
					x := e.grew[name]
					x.add(span{s.Time.Add(-s.Interval), s.Time})
					e.grew[name] = x
				}
			}
			if least, ok := e.Least[name]; !ok || v < least {
				e.Least[name] = v
			}
			e.Most[name] = max(e.Most[name], v)
		}
		e.samples = append(e.samples, *s)
		e.Samples++
	}
	for i := range events {
		x := &events[i]
		if !x.Time.Before(from) && !x.Time.After(to) {
			e.Events = append(e.Events, *x)
			continue
		}
		if isLoss(x) && (e.nearest == nil || e.distance(x) < e.distance(e.nearest)) {
			e.nearest = x
		}
	}
	return e
}

// isLoss reports whether an event is one that a loss, or what causes one, leaves in the journal.
func isLoss(x *stats.Event) bool {
	return slices.Contains([]string{stats.EventDrop.String(), stats.EventFeedGap.String(), stats.EventLink.String(), stats.EventLeave.String()}, x.Kind) ||
		x.Kind == stats.EventPath.String() && x.Code == stats.CodeEnded
}

// distance is how far an event is from the window.
func (e *Evidence) distance(x *stats.Event) time.Duration {
	return max(e.From.Sub(x.Time), x.Time.Sub(e.To))
}

// rules are asked in this order: what is nearer to the application first, because a full ring also shows further up. The last one is about what
// none of the others has asked for.
var rules = []func(*Evidence) []Finding{wholeRing, noBuffers, stackDrops, otherRings, kernelSockets, unservedQueues, memberships, programs, links,
	notDelivered, kernelDrops, cards, callbacks, listeners, otherLosses}

// Explain finds out what was lost in the window. The cause of the largest loss comes first, and behind each cause what follows from it.
func Explain(e *Evidence) []Finding {
	var found []Finding
	e.asked = map[string]bool{}
	for _, rule := range rules {
		found = append(found, rule(e)...)
	}
	found = append(found, feedGaps(e)...)
	narrow(found)
	narrowLooks(found)
	beginLinks(found)
	placeFeedGaps(e, found)
	if e.nothing = len(found) == 0; e.nothing {
		f := Finding{Place: Unknown, Cause: "no sample covers this time: the process did not run, or it is longer than 15 minutes ago"}
		if e.Samples > 0 {
			f = Finding{Place: Upstream, Cause: "nothing was lost on this host in this time, and no feed has noted a gap: what is missing did not get here",
				Evidence: e.received()}
			if e.Homeless > 0 {
				f.Place, f.Cause = Unknown, "nothing that the statistics have was lost in this time, but "+e.homeless()
			}
		}
		if x := e.nearest; x != nil {
			f.Evidence = append(f.Evidence, fmt.Sprintf("outside of this time the journal has, next to it: %s %s %s (--at %s)", x.Time.Format("15:04:05.000"), x.Kind,
				x.Text, x.Time.Format("15:04:05")))
		}
		found = append(found, f)
	}
	list := relate(found)
	if e.TextOnly {
		list = append(list, Finding{Number: len(list) + 1, Place: Unknown, Cause: "the process was built with an older version of the library: what its journal " +
			"tells is missing above (xtstat events shows it)"})
	}
	return list
}

// homeless says that counters are missing.
func (e *Evidence) homeless() string {
	return fmt.Sprintf("%d counters of this host found no room in the statistics: it has many interfaces, and what was lost may be among them", e.Homeless)
}

// Lost reports whether the finding says that something was lost here.
func (f *Finding) Lost() bool { return f.Count > 0 && f.Place != Upstream && f.Place != Unknown }

// delta is how much a counter grew, summed over the interfaces and queues whose names stand in front of it; evidence names each. The counters of
// an AF_XDP socket ("xdp.rx_dropped") and of a card are others than those of the interface ("rx_dropped").
func (e *Evidence) delta(section, counter string) (sum uint64, evidence []string) {
	for name, v := range e.Deltas {
		if rest, ok := isOf(name, section, counter); ok && v > 0 {
			sum += v
			evidence = append(evidence, fmt.Sprintf("%s +%d", rest, v))
		}
	}
	slices.Sort(evidence)
	return sum, evidence
}

// isOf reports whether a column is a counter's, and what it is called behind its section.
func isOf(column, section, counter string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(column, section+".")
	of, found := strings.CutSuffix(rest, "."+counter)
	return rest, ok && (rest == counter || found && !strings.HasSuffix(of, ".xdp") && !strings.HasSuffix(of, ".ethtool"))
}

// sampledAt gives a finding without a time the seconds in which samples have seen a counter grow.
func (e *Evidence) sampledAt(f Finding, section, counter string) Finding {
	var s span
	for name, x := range e.grew {
		if _, ok := isOf(name, section, counter); ok {
			s.add(x)
		}
	}
	if f.Time.IsZero() {
		f.Since, f.Until = s.from, s.to
	}
	return f
}

// most is the largest value of a column in the samples that touch the time of a finding, or of the window if there is none.
func (e *Evidence) most(f *Finding, column string) uint64 {
	if v := e.mostThen(f, column); v > 0 {
		return v
	}
	return e.Most[column]
}

// mostThen is most of the time of the finding alone.
func (e *Evidence) mostThen(f *Finding, column string) (v uint64) {
	from, to := f.begin(), f.end()
	for i := range e.samples {
		if s := &e.samples[i]; !s.Time.Before(from) && !s.Time.Add(-s.Interval).After(to) {
			v = max(v, s.Values[column])
		}
	}
	return v
}

// begin and end are the earliest and the latest time of what the finding is about.
func (f *Finding) begin() time.Time {
	if f.Time.IsZero() {
		return f.Since
	}
	return f.Time
}

func (f *Finding) end() time.Time {
	if f.Until.Before(f.Time) {
		return f.Time
	}
	return f.Until
}

// earliest is when it began at the earliest.
func (f *Finding) earliest() time.Time {
	if f.Earliest.IsZero() || f.begin().Before(f.Earliest) {
		return f.begin()
	}
	return f.Earliest
}

// exactness is how exact times are that are said without bounds.
const exactness = time.Millisecond

// Bounds says in words between which times it began; empty if that is exact to a millisecond. Hour and minute are left out where the second is
// that of Time.
func (f *Finding) Bounds() string {
	if f.Time.IsZero() {
		return ""
	}
	early, late := !f.Earliest.IsZero() && f.Time.Sub(f.Earliest) > exactness, f.Latest.Sub(f.Time) > exactness
	short := func(t time.Time) string {
		if t.Truncate(time.Second).Equal(f.Time.Truncate(time.Second)) {
			return t.Format(".000")
		}
		return t.Format("15:04:05.000")
	}
	switch {
	case early && late:
		return "begun between " + short(f.Earliest) + " and " + short(f.Latest)
	case early:
		return "begun after " + short(f.Earliest)
	case late:
		return "begun before " + short(f.Latest)
	}
	return ""
}

// counter is one of a section.
type counter struct{ section, name string }

// pause is how long nothing must be lost for the next loss to be another one.
const pause = 250 * time.Millisecond

// losses are what journal and samples say of counters: a finding for each time that something was lost, with count, times and evidence. Where
// the journal may have been written over, or has nothing, samples tell what is missing in it.
func (e *Evidence) losses(counters ...counter) (list []Finding) {
	var names []string
	var sampled uint64
	var evidence []string
	journaled := false
	for _, c := range counters {
		names = append(names, c.name)
		n, more := e.delta(c.section, c.name)
		sampled += n
		evidence = append(evidence, more...)
		e.asked[c.section+"."+c.name], e.asked[stats.Drivers+"."+c.name] = true, true
		for _, section := range []string{c.section, stats.Drivers} { // of counters of links the journal has what drivers have stored
			row := stats.SectionOf(section).Find(c.name)
			journaled = journaled || row != nil && row.Loss
		}
	}
	var sum uint64
	for i := range e.Events {
		x := &e.Events[i]
		if x.Kind != stats.EventDrop.String() {
			continue
		}
		if !slices.Contains(names, x.Code) {
			continue
		}
		if n := len(list); n == 0 || x.Time.Sub(list[n-1].Until) > pause {
			list = append(list, Finding{Time: x.Time, Earliest: x.Earliest, Latest: x.Latest, dropped: map[string]uint64{}})
		}
		f := &list[len(list)-1]
		f.Count += x.Count
		f.Until, f.lastLook = x.End, x.Earliest
		f.dropped[x.Text] += x.Count
		sum += x.Count
	}
	if sampled > sum && !(e.complete && journaled) {
		if len(list) == 0 {
			f := Finding{}
			for _, c := range counters {
				x := e.sampledAt(f, c.section, c.name)
				s := span{f.Since, f.Until}
				s.add(span{x.Since, x.Until})
				f.Since, f.Until = s.from, s.to
			}
			list = append(list, f)
		}
		list[len(list)-1].Count += sampled - sum
	}
	for i := range list {
		f := &list[i]
		for _, name := range slices.Sorted(maps.Keys(f.dropped)) {
			f.Evidence = append(f.Evidence, fmt.Sprintf("journal: %s +%d", name, f.dropped[name]))
		}
		if len(list) > 1 {
			continue
		}
		for _, x := range evidence {
			if !slices.Contains(f.Evidence, "journal: "+x) {
				f.Evidence = append(f.Evidence, x)
			}
		}
	}
	return list
}

// received says what did come in.
func (e *Evidence) received() []string {
	interfaces, _ := e.delta(stats.Host, "rx_packets")
	return []string{fmt.Sprintf("in this time rings received %d packets, interfaces %d", e.Deltas["ring.packets"], interfaces)}
}

// gap is the event of the longest time without a poll that touches a time; nil: the journal has none.
func (e *Evidence) gap(from, to time.Time) (longest *stats.Event) {
	const late = 50 * time.Millisecond // a loss is counted some milliseconds behind the gap that it is from
	for i := range e.Events {
		x := &e.Events[i]
		if x.Kind != stats.EventPollGap.String() || x.End.Add(late).Before(from) || x.Earliest.After(to) {
			continue
		}
		if longest == nil || x.Count > longest.Count {
			longest = x
		}
	}
	return longest
}

// blame is who kept the loop from polling, by the code of a gap; the ring, where that is not known.
var blame = map[string]Place{stats.CodeHandler: Application, stats.CodeTimers: Application, stats.CodePostedWork: Application,
	stats.CodeCollection: Application, stats.CodeStopped: Application, stats.CodePreempted: Kernel, stats.CodePageFault: Kernel, stats.CodeSteal: Kernel,
	stats.CodeUnknown: Ring, "": Ring}

// describeGap is a gap in words, as evidence.
func describeGap(x *stats.Event) string {
	return fmt.Sprintf("poll gap of %v until %s", time.Duration(x.Count).Round(time.Microsecond), x.End.Format("15:04:05.000000"))
}
