package stack

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Own is the host of a stack without a kernel: addresses and routes that it is given, neighbours that it finds by ARP. It belongs to
// its stack's owner.
type Own struct {
	stack      *Stack
	facts      host.Facts // Neighbours: the fixed ones
	snap       *host.Snapshot
	generation uint64        // of tables and neighbours together
	stale      bool          // the snapshot is older than the entries
	changed    []host.Target // neighbours whose answers have changed since it was made
	entries    []neighbour   // in the order in which they came: a simulated world repeats itself
}

// neighbour is an entry of the ARP table.
type neighbour struct {
	host.Target
	mac    wire.MAC
	state  arpState
	tries  uint8
	used   bool       // since the last confirmation
	due    clock.Time // when something is to be done about it
	serial uint64
}

type arpState uint8

const (
	incomplete arpState = iota // asked for
	reachable
	probing // confirmed long ago and in use: asked by unicast, used meanwhile
	failed  // nobody answered
)

// Times of ARP. RFC 1122 section 2.3.2.1 allows one request a second to a neighbour.
const (
	askAgain      = clock.Time(1e9)
	askTries      = 3
	confirmedTime = clock.Time(60e9)
	tableLimit    = 1024
)

// NewOwn makes the host of one stack.
func NewOwn(f host.Facts) (*Own, error) {
	if len(f.Addresses) == 0 {
		return nil, errors.New("stack: Addresses: a host needs one")
	}
	o := &Own{facts: f}
	o.publish()
	return o, nil
}

// Set gives the host other tables: an address went, a route came. What ARP has found stays.
func (o *Own) Set(f host.Facts) {
	o.facts, o.snap = f, nil
	o.publish()
}

// Facts are the tables as given last.
func (o *Own) Facts() host.Facts { return o.facts }

// Generation moves with every table and every neighbour that changes.
func (o *Own) Generation() uint64 {
	o.renew()
	return o.generation
}

// Snapshot is described at Host.
func (o *Own) Snapshot() *host.Snapshot {
	o.renew()
	return o.snap
}

// renew makes the snapshot that is due: one for all that a burst of frames taught.
func (o *Own) renew() {
	if o.stale {
		o.publish()
	}
}

// Resolve is described at Host.
func (o *Own) Resolve(t host.Target) {
	if o.find(t) == nil && len(o.entries) < tableLimit {
		o.entries = append(o.entries, neighbour{Target: t, state: incomplete, tries: 1, due: o.stack.now + askAgain})
		o.stack.askFor(t, wire.MAC{})
	}
}

// Use is described at Host.
func (o *Own) Use(t host.Target) {
	if n := o.find(t); n != nil {
		n.used = true
	}
}

func (o *Own) find(t host.Target) *neighbour {
	for i := range o.entries {
		if o.entries[i].Target == t {
			return &o.entries[i]
		}
	}
	return nil
}

// publish makes the next snapshot: afresh when the tables are others, else with other neighbours.
func (o *Own) publish() {
	o.stale = false
	o.generation++
	f := o.facts
	f.Neighbours = slices.Clone(f.Neighbours)
	for i := range o.entries {
		e := &o.entries[i]
		n := host.Neighbour{Target: e.Target, MAC: e.mac, Serial: e.serial}
		switch e.state {
		case incomplete:
			n.State = unix.NUD_INCOMPLETE
		case reachable:
			n.State = unix.NUD_REACHABLE
		case probing:
			n.State = unix.NUD_PROBE
		case failed:
			n.State = unix.NUD_FAILED
		}
		f.Neighbours = append(f.Neighbours, n)
	}
	if o.snap == nil {
		o.snap = host.NewSnapshot(f, o.generation)
	} else {
		o.snap = o.snap.WithNeighbours(f.Neighbours, o.generation, o.changed)
	}
	o.changed = o.changed[:0]
}

// learn notes what an ARP packet said. Only who speaks to us gets a new entry (RFC 826); gratuitous announcements change old ones.
func (o *Own) learn(now clock.Time, t host.Target, mac wire.MAC, create bool) {
	n := o.find(t)
	if n == nil {
		if !create || len(o.entries) >= tableLimit {
			return
		}
		o.entries = append(o.entries, neighbour{Target: t})
		n = &o.entries[len(o.entries)-1]
	}
	news := n.mac != mac || n.state == incomplete || n.state == failed
	n.mac, n.state, n.due, n.tries, n.used = mac, reachable, now+confirmedTime, 0, false
	if news {
		n.serial = o.generation + 1
		o.stale = true
		o.changed = append(o.changed, t)
	}
}

func (o *Own) deadline() clock.Time {
	next := clock.Never
	for i := range o.entries {
		next = min(next, o.entries[i].due)
	}
	return next
}

// advance asks, asks again, and gives up.
func (o *Own) advance(now clock.Time) {
	news := false
	kept := o.entries[:0]
	for i := range o.entries {
		n := o.entries[i]
		if n.due > now {
			kept = append(kept, n)
			continue
		}
		switch {
		case n.state == failed, n.state == reachable && !n.used:
			news = true
			o.changed = append(o.changed, n.Target)
			continue // forgotten
		case n.state == reachable:
			n.state, n.tries = probing, 0
		}
		if n.tries < askTries {
			o.stack.askFor(n.Target, n.mac)
			n.tries++
			n.due = now + askAgain
		} else {
			n.state, n.due, n.serial, news = failed, now+askAgain, o.generation+1, true
			o.changed = append(o.changed, n.Target)
		}
		kept = append(kept, n)
	}
	o.entries = kept
	if news {
		o.publish()
	}
}
