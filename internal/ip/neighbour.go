package ip

import (
	"slices"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// neighbour is an entry of the ARP table of a LocalHost.
//
//	state        what becomes of it
//	(no entry)   Resolve: incomplete, and asked for. It asks for us: reachable, unused
//	incomplete   asked for each second; after 3 requests: failed
//	reachable    after 60 s in use: probing; not in use: forgotten
//	probing      used, and asked each second by unicast; after 3 requests: failed
//	failed       after 1 s: forgotten
//	any          an ARP packet of its: reachable
type neighbour struct {
	host.Target
	mac    wire.MAC
	state  arpState
	tries  uint8
	used   bool       // since the last confirmation
	unused bool       // it asked for us, and no frame has been sent to it yet: it is in no snapshot
	due    clock.Time // when something is to be done about it
	serial uint64
}

type arpState uint8

const (
	incomplete arpState = iota // asked for
	reachable
	probing // confirmed long ago and in use: asked by unicast, used meanwhile
	failed  // it did not answer
)

// Limits of ARP. RFC 1122 section 2.3.2.1 allows one request a second to a neighbour.
const (
	askAgain      = clock.Time(1e9)
	askTries      = 3
	confirmedTime = clock.Time(60e9)
	tableLimit    = 1024
	unusedLimit   = tableLimit / 4 // any host can make such entries
)

func (h *LocalHost) find(t host.Target) *neighbour {
	for i := range h.neighbours {
		if h.neighbours[i].Target == t {
			return &h.neighbours[i]
		}
	}
	return nil
}

// Resolve asks for a neighbour's station. In a full table unused entries make room, then those that did not answer.
func (h *LocalHost) Resolve(t host.Target) {
	if n := h.find(t); n != nil {
		if n.unused {
			n.unused, n.serial = false, h.generation+1
			h.noteChange(t)
		}
		return
	}
	if len(h.neighbours) < tableLimit || h.evict(isUnused) || h.evict(isFailed) {
		h.neighbours = append(h.neighbours, neighbour{Target: t, state: incomplete, tries: 1, due: h.stack.now + askAgain})
		h.stack.requestNeighbour(t, wire.MAC{})
	}
}

// noteChange makes the next snapshot due, and a neighbour one of those that changed.
func (h *LocalHost) noteChange(t host.Target) {
	h.stale = true
	h.changed = append(h.changed, t)
}

// Use notes that a neighbour was sent to.
func (h *LocalHost) Use(t host.Target) {
	if n := h.find(t); n != nil {
		n.used = true
	}
}

// useLearned is the station of a neighbour that no snapshot has yet: it asked for us, and is now sent to.
func (h *LocalHost) useLearned(t host.Target) (wire.MAC, bool) {
	n := h.find(t)
	if n == nil || n.state != reachable && n.state != probing {
		return wire.MAC{}, false
	}
	n.unused = false
	return n.mac, true
}

func isUnused(n *neighbour) bool { return n.unused }
func isFailed(n *neighbour) bool { return n.state == failed }

// evict removes the oldest entry of a kind.
func (h *LocalHost) evict(kind func(n *neighbour) bool) bool {
	for i := range h.neighbours {
		if kind(&h.neighbours[i]) {
			h.neighbours = slices.Delete(h.neighbours, i, i+1)
			return true
		}
	}
	return false
}

// learn takes over what an ARP packet says of its sender. Only a host that asks for us gets a new entry, because an answer to it is likely
// (RFC 826); other packets change entries that exist. Made-up senders replace each other: no used entry, and no snapshot is made for them.
func (h *LocalHost) learn(now clock.Time, t host.Target, mac wire.MAC, asksForUs bool) {
	n := h.find(t)
	if n == nil {
		if !asksForUs || !h.isOnLink(t) || !h.makeRoomForUnused() {
			return
		}
		h.neighbours = append(h.neighbours, neighbour{Target: t, unused: true})
		n = &h.neighbours[len(h.neighbours)-1]
	}
	changed := !n.unused && (n.mac != mac || n.state == incomplete || n.state == failed)
	n.mac, n.state, n.due, n.tries, n.used = mac, reachable, now+confirmedTime, 0, false
	if changed {
		n.serial = h.generation + 1
		h.noteChange(t)
	}
}

// isOnLink reports whether packets to an address leave by its interface, to itself: only such a host is a neighbour.
func (h *LocalHost) isOnLink(t host.Target) bool {
	w, err := h.snapshot.Route(host.Query{Target: t.Addr})
	return err == nil && w.Type == host.Unicast && w.NextHop(t.Addr) == t
}

// makeRoomForUnused reports whether the table may have one more unused entry. At the limit it removes an older one.
func (h *LocalHost) makeRoomForUnused() bool {
	unused := 0
	for i := range h.neighbours {
		if h.neighbours[i].unused {
			unused++
		}
	}
	return unused < unusedLimit && len(h.neighbours) < tableLimit || h.evict(isUnused)
}

func (h *LocalHost) deadline() clock.Time {
	next := clock.Never
	for i := range h.neighbours {
		next = min(next, h.neighbours[i].due)
	}
	return next
}

// advance asks, asks again, and gives up.
func (h *LocalHost) advance(now clock.Time) {
	changed := false
	kept := h.neighbours[:0]
	for i := range h.neighbours {
		n := h.neighbours[i]
		if n.due > now {
			kept = append(kept, n)
			continue
		}
		switch {
		case n.state == failed, n.state == reachable && !n.used:
			if !n.unused { // else it is in no snapshot
				changed = true
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
			n.state, n.due, n.serial, changed = failed, now+askAgain, h.generation+1, true
			h.changed = append(h.changed, n.Target)
		}
		kept = append(kept, n)
	}
	h.neighbours = kept
	if changed {
		h.publish()
	}
}
