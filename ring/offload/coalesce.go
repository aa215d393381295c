package offload

import (
	"slices"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// coalescing holds back what Poll would send, so that frames share system calls. In AF_XDP's copy mode each flush is one, which costs some
// 250 ns beside its frames (540 ns each on a veth). A fast answerer meets every request as it comes and would pay that for each one or two.
//
// It holds only while frames come, and not for a quick exchange of single ones:
//
//	begin   two frames or more came since the last flush
//	end     Config.Gather frames wait, or nothing came for coalescePause, or it took coalesceMax
//
// After a wait in which nothing came (the second end) the next flushes do not wait, twice as many each time. Flush sends at once, and so does
// a ring before it sleeps: coalescing is for loops that poll on, and those ask for it by Config.Gather.
type coalescing struct {
	received   int        // frames since the last flush
	on         bool       // being held
	turns      int        // of it, with frames
	since      clock.Time // when it began
	paused     clock.Time // when the first turn without a frame was
	skip       int        // flushes until it is tried again
	emptyPolls int        // what skip is set to next, less one
}

const (
	coalescePause      = clock.Time(time.Microsecond)
	coalesceMax        = clock.Time(20 * time.Microsecond)
	coalesceEmptyPolls = 63
	coalesceCheck      = 4       // on every fourth turn with frames the clock is read
	coalesceRecheck    = 1 << 10 // flushes until the links are looked at again when none is AF_XDP in copy mode; links come and go seldom
)

// keepsCoalescing reports whether the frames that are queued for the links are to wait for more of them; Reap asks it before each flush.
func (d *driver) keepsCoalescing() bool {
	g := &d.coalescing
	switch {
	case len(d.sending.list) > 0, d.ip.Queued() >= d.config.Gather: // sockets have queued more than frames, or enough frames wait
		if g.on { // the wait was of use: the next one is not delayed
			g.emptyPolls = 0
		}
		return false
	case !g.on: // one frame since the last flush is an exchange of single ones: it must not wait
		return g.received > 1 && d.startCoalescing()
	case d.turn.idle == 0: // the last turn had frames
		g.paused = 0
		g.turns++
		return g.turns%coalesceCheck != 0 || d.turn.source()-g.since < coalesceMax
	}
	now := d.turn.source() // no frame came: the pause begins or goes on
	if g.paused == 0 {
		g.paused = now
	}
	if now-g.paused < coalescePause && now-g.since < coalesceMax {
		return true
	}
	g.emptyPolls = min(2*g.emptyPolls+1, coalesceEmptyPolls)
	g.skip = g.emptyPolls
	return false
}

// startCoalescing begins to hold frames back, and reports that it does: where each flush is a system call, and not soon after a wait in which
// nothing came.
func (d *driver) startCoalescing() bool {
	g := &d.coalescing
	if g.skip > 0 {
		g.skip--
		return false
	}
	if !slices.ContainsFunc(d.links, func(l placedLink) bool {
		return l.Link.Caps().Has(link.CapSteering) && !l.Link.Caps().Has(link.CapZeroCopy)
	}) {
		g.skip = coalesceRecheck
		return false
	}
	g.on, g.turns, g.since, g.paused = true, 0, d.turn.source(), 0
	return true
}

// flushed is called by every flush.
func (g *coalescing) flushed() { g.on, g.received = false, 0 }

// endEmptyCoalescing ends the holding when no frame is queued any more, because all were recalled or lost: the next frame begins a new one.
func (d *driver) endEmptyCoalescing() {
	if d.ip.Queued() == 0 {
		d.coalescing.on = false
	}
}
