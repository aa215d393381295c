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
	heard  bool       // it asked us, and nobody here has sent to it: it is in no snapshot
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
	heardLimit    = tableLimit / 4 // entries of those that asked us and that nobody here has sent to: anybody can make these
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

// Snapshot is the host's links, addresses, routes and neighbours as they are now.
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

// Resolve asks for a neighbour's station. In a full table those make room that nobody here has sent to, then those that did not answer.
func (o *Own) Resolve(t host.Target) {
	if n := o.find(t); n != nil {
		if n.heard {
			n.heard, o.stale, n.serial = false, true, o.generation+1
			o.changed = append(o.changed, t)
		}
		return
	}
	if len(o.entries) < tableLimit || o.evict(func(n *neighbour) bool { return n.heard }) ||
		o.evict(func(n *neighbour) bool { return n.state == failed }) {
		o.entries = append(o.entries, neighbour{Target: t, state: incomplete, tries: 1, due: o.stack.now + askAgain})
		o.stack.askFor(t, wire.MAC{})
	}
}

// known is the address of a neighbour that no snapshot has yet: it asked us, and is now sent to.
func (o *Own) known(t host.Target) (wire.MAC, bool) {
	n := o.find(t)
	if n == nil || n.state != reachable && n.state != probing {
		return wire.MAC{}, false
	}
	n.heard = false
	return n.mac, true
}

// evict removes the oldest entry of a kind.
func (o *Own) evict(which func(n *neighbour) bool) bool {
	for i := range o.entries {
		if which(&o.entries[i]) {
			o.entries = slices.Delete(o.entries, i, i+1)
			return true
		}
	}
	return false
}

// Use notes that a neighbour was sent to.
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
		if e.heard {
			continue
		}
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

// learn notes what an ARP packet said. Only who asks for us gets a new entry, because he is likely to be answered to (RFC 826); all else changes
// old ones. Made-up senders take the places of each other: nobody else's, and no snapshot is made for them.
func (o *Own) learn(now clock.Time, t host.Target, mac wire.MAC, create bool) {
	n := o.find(t)
	if n == nil {
		if !create || !o.direct(t) {
			return
		}
		heard := func(n *neighbour) bool { return n.heard }
		count := 0
		for i := range o.entries {
			if heard(&o.entries[i]) {
				count++
			}
		}
		if count >= heardLimit || len(o.entries) >= tableLimit {
			if !o.evict(heard) {
				return
			}
		}
		o.entries = append(o.entries, neighbour{Target: t, heard: true})
		n = &o.entries[len(o.entries)-1]
	}
	news := !n.heard && (n.mac != mac || n.state == incomplete || n.state == failed)
	n.mac, n.state, n.due, n.tries, n.used = mac, reachable, now+confirmedTime, 0, false
	if news {
		n.serial = o.generation + 1
		o.stale = true
		o.changed = append(o.changed, t)
	}
}

// direct tells whether packets to an address leave by its interface, to itself: only such a sender is a neighbour.
func (o *Own) direct(t host.Target) bool {
	w, err := o.snap.Route(host.Query{Target: t.Addr})
	return err == nil && w.Type == host.Unicast && w.NextHop(t.Addr) == t
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
			if !n.heard { // else it is in no snapshot
				news = true
				o.changed = append(o.changed, n.Target)
			}
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
