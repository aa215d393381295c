package ip

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// LocalHost is the host of a stack without a kernel: addresses and routes that it is given, neighbours that it finds by ARP. It belongs
// to its stack's owner.
type LocalHost struct {
	stack      *Stack
	facts      host.Facts // Neighbours: the fixed ones
	snapshot   *host.Snapshot
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

// NewLocalHost makes the host of one stack.
func NewLocalHost(f host.Facts) (*LocalHost, error) {
	if len(f.Addresses) == 0 {
		return nil, errors.New("ip: Addresses: a host needs one")
	}
	h := &LocalHost{facts: f}
	h.publish()
	return h, nil
}

// Set gives the host other tables: an address went, a route came. What ARP has found stays.
func (h *LocalHost) Set(f host.Facts) {
	h.facts, h.snapshot = f, nil
	h.publish()
}

// Facts are the tables as given last.
func (h *LocalHost) Facts() host.Facts { return h.facts }

// Generation moves with every table and every neighbour that changes.
func (h *LocalHost) Generation() uint64 {
	h.renew()
	return h.generation
}

// Snapshot is the host's links, addresses, routes and neighbours as they are now.
func (h *LocalHost) Snapshot() *host.Snapshot {
	h.renew()
	return h.snapshot
}

// renew makes the snapshot that is due: one for all that a burst of frames taught.
func (h *LocalHost) renew() {
	if h.stale {
		h.publish()
	}
}

// Resolve asks for a neighbour's station. In a full table those make room that nobody here has sent to, then those that did not answer.
func (h *LocalHost) Resolve(t host.Target) {
	if n := h.find(t); n != nil {
		if n.heard {
			n.heard, h.stale, n.serial = false, true, h.generation+1
			h.changed = append(h.changed, t)
		}
		return
	}
	if len(h.entries) < tableLimit || h.evict(func(n *neighbour) bool { return n.heard }) ||
		h.evict(func(n *neighbour) bool { return n.state == failed }) {
		h.entries = append(h.entries, neighbour{Target: t, state: incomplete, tries: 1, due: h.stack.now + askAgain})
		h.stack.requestNeighbour(t, wire.MAC{})
	}
}

// learned is the station of a neighbour that no snapshot has yet: it asked for us, and is now sent to.
func (h *LocalHost) learned(t host.Target) (wire.MAC, bool) {
	n := h.find(t)
	if n == nil || n.state != reachable && n.state != probing {
		return wire.MAC{}, false
	}
	n.heard = false
	return n.mac, true
}

// evict removes the oldest entry of a kind.
func (h *LocalHost) evict(which func(n *neighbour) bool) bool {
	for i := range h.entries {
		if which(&h.entries[i]) {
			h.entries = slices.Delete(h.entries, i, i+1)
			return true
		}
	}
	return false
}

// Use notes that a neighbour was sent to.
func (h *LocalHost) Use(t host.Target) {
	if n := h.find(t); n != nil {
		n.used = true
	}
}

func (h *LocalHost) find(t host.Target) *neighbour {
	for i := range h.entries {
		if h.entries[i].Target == t {
			return &h.entries[i]
		}
	}
	return nil
}

// publish makes the next snapshot: afresh when the tables are others, else with other neighbours.
func (h *LocalHost) publish() {
	h.stale = false
	h.generation++
	f := h.facts
	f.Neighbours = slices.Clone(f.Neighbours)
	for i := range h.entries {
		e := &h.entries[i]
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
	if h.snapshot == nil {
		h.snapshot = host.NewSnapshot(f, h.generation)
	} else {
		h.snapshot = h.snapshot.WithNeighbours(f.Neighbours, h.generation, h.changed)
	}
	h.changed = h.changed[:0]
}

// learn notes what an ARP packet said. Only who asks for us gets a new entry, because he is likely to be answered to (RFC 826); all else changes
// old ones. Made-up senders take the places of each other: nobody else's, and no snapshot is made for them.
func (h *LocalHost) learn(now clock.Time, t host.Target, mac wire.MAC, create bool) {
	n := h.find(t)
	if n == nil {
		if !create || !h.direct(t) {
			return
		}
		heard := func(n *neighbour) bool { return n.heard }
		count := 0
		for i := range h.entries {
			if heard(&h.entries[i]) {
				count++
			}
		}
		if count >= heardLimit || len(h.entries) >= tableLimit {
			if !h.evict(heard) {
				return
			}
		}
		h.entries = append(h.entries, neighbour{Target: t, heard: true})
		n = &h.entries[len(h.entries)-1]
	}
	news := !n.heard && (n.mac != mac || n.state == incomplete || n.state == failed)
	n.mac, n.state, n.due, n.tries, n.used = mac, reachable, now+confirmedTime, 0, false
	if news {
		n.serial = h.generation + 1
		h.stale = true
		h.changed = append(h.changed, t)
	}
}

// direct tells whether packets to an address leave by its interface, to itself: only such a sender is a neighbour.
func (h *LocalHost) direct(t host.Target) bool {
	w, err := h.snapshot.Route(host.Query{Target: t.Addr})
	return err == nil && w.Type == host.Unicast && w.NextHop(t.Addr) == t
}

func (h *LocalHost) deadline() clock.Time {
	next := clock.Never
	for i := range h.entries {
		next = min(next, h.entries[i].due)
	}
	return next
}

// advance asks, asks again, and gives up.
func (h *LocalHost) advance(now clock.Time) {
	news := false
	kept := h.entries[:0]
	for i := range h.entries {
		n := h.entries[i]
		if n.due > now {
			kept = append(kept, n)
			continue
		}
		switch {
		case n.state == failed, n.state == reachable && !n.used:
			if !n.heard { // else it is in no snapshot
				news = true
				h.changed = append(h.changed, n.Target)
			}
			continue // forgotten
		case n.state == reachable:
			n.state, n.tries = probing, 0
		}
		if n.tries < askTries {
			h.stack.requestNeighbour(n.Target, n.mac)
			n.tries++
			n.due = now + askAgain
		} else {
			n.state, n.due, n.serial, news = failed, now+askAgain, h.generation+1, true
			h.changed = append(h.changed, n.Target)
		}
		kept = append(kept, n)
	}
	h.entries = kept
	if news {
		h.publish()
	}
}
