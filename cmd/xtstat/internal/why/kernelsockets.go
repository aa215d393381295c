package why

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/socketxtreme/socketxtreme/stats"
)

// blameSocket says why the kernel's receive buffer of a socket was full: the program holds packets, so that reading has stopped; the loop did
// not poll for most of the time; or it reads too slowly.
func (e *Evidence) blameSocket(f *Finding) {
	const full = "the kernel's receive buffer of the socket was full"
	if text, evidence := e.heldPackets(f); text != "" && !e.stalled(f) {
		f.Place, f.Cause, f.Evidence = Application, full+", because reading had stopped: "+text, append(f.Evidence, evidence...)
		return
	}
	f.Place, f.Cause = Socket, full
	if e.blameGaps(f) {
		if f.Place == Ring { // the gap has no cause outside the program: here the socket's buffer was full, not a ring
			f.Place = Socket
		}
		return
	}
	f.Cause += ": it is read too slowly"
	const telling = 10 * time.Millisecond
	if x := e.gap(f.begin(), f.end()); x != nil && time.Duration(x.Count) >= telling {
		f.Evidence = append(f.Evidence, describeGap(x)+": "+x.Text)
	}
}

// heldPackets says how many buffers the program held at the time of a finding, if that is why sockets were not read: reading has stopped, and
// more is held than waits to be delivered; or a quarter of all buffers is held. Empty: it is not.
func (e *Evidence) heldPackets(f *Finding) (text string, evidence []string) {
	all := e.levelAt(f, "poller.buffers")
	held, waiting := e.levelAt(f, "poller.buffers_held")+e.levelAt(f, "poller.buffers_lent"), e.levelAt(f, "poller.buffers_received")
	stopped := uint64(0)
	for _, c := range []string{"ring.budget_stops", "ring.starved"} {
		if n := e.grewBefore(f, c); n > 0 {
			stopped += n
			evidence = append(evidence, fmt.Sprintf("%s +%d", c, n))
		}
	}
	if held == 0 || held < waiting || stopped == 0 && 4*held < all {
		return "", nil
	}
	if bytes := e.levelAt(f, "socket.held_bytes"); bytes > 0 {
		evidence = append(evidence, fmt.Sprintf("sockets held at most %d bytes", bytes))
	}
	return fmt.Sprintf("the program holds %d of %d buffers, packets are not released", held, all), evidence
}

// levelAt is the largest value of a gauge in the samples that touch the time of a finding.
func (e *Evidence) levelAt(f *Finding, column string) (v uint64) {
	for i := range e.samples {
		if s := &e.samples[i]; !s.Time.Before(f.begin()) && !s.Time.Add(-s.Interval).After(f.end()) {
			v = max(v, s.Values[column])
		}
	}
	return v
}

// grewBefore is how much a total grew in the samples that touch the time of a finding, and the second before it: a buffer becomes full some time
// after nobody reads it.
func (e *Evidence) grewBefore(f *Finding, column string) (n uint64) {
	before := e.first
	for i := range e.samples {
		s := &e.samples[i]
		if before != nil && !s.Time.Before(f.begin().Add(-time.Second)) && !s.Time.Add(-s.Interval).After(f.end()) {
			n += less(s.Values[column], before[column])
		}
		before = s.Values
	}
	return n
}

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
