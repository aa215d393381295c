package why

import (
	"fmt"
	"time"
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
	all := e.mostThen(f, "poller.buffers")
	held, waiting := e.mostThen(f, "poller.buffers_held")+e.mostThen(f, "poller.buffers_lent"), e.mostThen(f, "poller.buffers_received")
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
	if bytes := e.mostThen(f, "socket.held_bytes"); bytes > 0 {
		evidence = append(evidence, fmt.Sprintf("sockets held at most %d bytes", bytes))
	}
	return fmt.Sprintf("the program holds %d of %d buffers, packets are not released", held, all), evidence
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
