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
	Place    Place     `json:"place"`
	Cause    string    `json:"cause"`
	Count    uint64    `json:"count"` // of what Unit says; 0: not known
	Unit     string    `json:"unit,omitempty"`
	Time     time.Time `json:"time,omitempty"` // of the first event; zero where only samples tell
	Evidence []string  `json:"evidence"`

	unrelated bool // it explains no gap of a feed: it is about datagrams that nobody wanted
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
}

// Gather takes from samples and events what belongs to a window. A sample stands for the time since the one before it.
func Gather(samples []stats.Sample, events []stats.Event, from, to time.Time) *Evidence {
	e := &Evidence{From: from, To: to, Deltas: map[string]uint64{}, Before: map[string]uint64{}, Most: map[string]uint64{}, Least: map[string]uint64{}}
	for i := range samples {
		s := &samples[i]
		if s.Time.Before(from) || s.Time.Add(-s.Interval).After(to) {
			continue
		}
		var before map[string]uint64
		if i > 0 {
			before = samples[i-1].Values
		}
		for name, v := range s.Values {
			if e.Samples == 0 {
				e.Before[name] = before[name]
			}
			if i > 0 {
				e.Deltas[name] += v - min(v, before[name])
			}
			if least, ok := e.Least[name]; !ok || v < least {
				e.Least[name] = v
			}
			e.Most[name] = max(e.Most[name], v)
		}
		e.Samples++
	}
	for i := range events {
		if t := events[i].Time; !t.Before(from) && !t.After(to) {
			e.Events = append(e.Events, events[i])
		}
	}
	return e
}

// rules are asked in this order: what is nearer to the application first, because a full ring also shows further up.
var rules = []func(*Evidence) []Finding{wholeRing, noBuffers, stackDrops, otherRings, kernelSockets, unservedQueues, memberships, programs, links,
	firewall, kernelDrops, cards}

// Explain finds out what was lost in the window.
func Explain(e *Evidence) []Finding {
	var found []Finding
	for _, rule := range rules {
		found = append(found, rule(e)...)
	}
	found = append(found, feedGaps(e, found)...)
	if len(found) == 0 {
		f := Finding{Place: Unknown, Cause: "no sample covers this time: the process did not run, or it is longer than 15 minutes ago"}
		if e.Samples > 0 {
			f = Finding{Place: Upstream, Cause: "nothing was lost on this host: what is missing did not get here", Evidence: e.received()}
		}
		found = append(found, f)
	}
	return found
}

// Lost reports whether the finding says that something was lost here.
func (f *Finding) Lost() bool { return f.Count > 0 && f.Place != Upstream && f.Place != Unknown }

// delta is how much a counter grew, summed over the interfaces and queues whose names stand in front of it; evidence names each. The counters of
// an AF_XDP socket ("xdp.rx_dropped") and of a card are others than those of the interface ("rx_dropped").
func (e *Evidence) delta(section, counter string) (sum uint64, evidence []string) {
	for name, v := range e.Deltas {
		rest, ok := strings.CutPrefix(name, section+".")
		of, found := strings.CutSuffix(rest, "."+counter)
		if ok && v > 0 && (rest == counter || found && !strings.HasSuffix(of, ".xdp") && !strings.HasSuffix(of, ".ethtool")) {
			sum += v
			evidence = append(evidence, fmt.Sprintf("%s +%d", rest, v))
		}
	}
	slices.Sort(evidence)
	return sum, evidence
}

// dropped adds up the drops in the journal whose counter is one of the names, or ends with one behind an interface's.
func (e *Evidence) dropped(counters ...string) (sum uint64, first time.Time) {
	for i := range e.Events {
		x := &e.Events[i]
		if x.Kind != stats.EventDrop.String() {
			continue
		}
		if slices.ContainsFunc(counters, func(c string) bool { return x.Text == c || strings.HasSuffix(x.Text, "."+c) }) {
			if sum == 0 {
				first = x.Time
			}
			sum += x.Count
		}
	}
	return sum, first
}

// loss is what journal and samples say of counters: the larger number, because the journal may have been written over, and the last second has
// no sample yet.
func (e *Evidence) loss(section string, counters ...string) (sum uint64, first time.Time, evidence []string) {
	sum, first = e.dropped(counters...)
	if sum > 0 {
		evidence = append(evidence, fmt.Sprintf("journal: %s +%d", strings.Join(counters, ", "), sum))
	}
	var sampled uint64
	for _, c := range counters {
		n, list := e.delta(section, c)
		sampled += n
		evidence = append(evidence, list...)
	}
	return max(sum, sampled), first, evidence
}

// received says what did come in.
func (e *Evidence) received() (evidence []string) {
	for _, c := range []string{"ring.packets", "ring.polls"} {
		evidence = append(evidence, fmt.Sprintf("%s +%d", c, e.Deltas[c]))
	}
	_, list := e.delta(stats.Host, "rx_packets")
	return append(evidence, list...)
}

// gap is the longest time without a poll in the window, as the journal has it: how long, and its cause in words.
func (e *Evidence) gap() (longest time.Duration, cause string, at time.Time) {
	for i := range e.Events {
		x := &e.Events[i]
		if x.Kind == stats.EventPollGap.String() && time.Duration(x.Count) > longest {
			longest, at = time.Duration(x.Count), x.Time
			_, cause, _ = strings.Cut(x.Text, ": ")
		}
	}
	return longest, cause, at
}

// blame is who kept the loop from polling, by the cause of a gap.
func blame(cause string) Place {
	for _, x := range []struct {
		begins string
		place  Place
	}{{"handler", Application}, {"timers", Application}, {"posted", Application}, {"garbage", Application}, {"stopped", Application},
		{"preempted", Kernel}, {"page fault", Kernel}, {"steal", Kernel}} {
		if strings.HasPrefix(cause, x.begins) {
			return x.place
		}
	}
	return Ring
}
