package ip

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Host is where routes and neighbours come from: [LocalHost], or the kernel's mirror in package ring/offload. Only Snapshot is called
// regularly, once per turn at most.
type Host interface {
	// Snapshot is the host as it is known now.
	Snapshot() *host.Snapshot
	// Resolve asks for a neighbour; the answer is in a later snapshot. It may be called for every packet.
	Resolve(t host.Target)
	// Use says that frames were sent to a neighbour within the last second, so that its entry is kept alive.
	Use(t host.Target)
}

// LocalHost is the host of a stack without a kernel: addresses and routes that it is given, neighbours that it finds by ARP (arp.go).
// It belongs to its stack's owner.
type LocalHost struct {
	stack      *Stack
	facts      host.Facts // Neighbours: the fixed ones
	snapshot   *host.Snapshot
	generation uint64        // of tables and neighbours together
	stale      bool          // the snapshot is older than the neighbours
	changed    []host.Target // neighbours whose answers have changed since it was made
	neighbours []neighbour   // in the order in which they came: a simulated world repeats itself
}

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
	h.publishIfStale()
	return h.generation
}

// Snapshot is the host's links, addresses, routes and neighbours as they are now.
func (h *LocalHost) Snapshot() *host.Snapshot {
	h.publishIfStale()
	return h.snapshot
}

// publishIfStale makes a new snapshot if neighbours have changed since the last: one snapshot for all that a burst of frames has changed.
func (h *LocalHost) publishIfStale() {
	if h.stale {
		h.publish()
	}
}

// publish makes the next snapshot: afresh when the tables are others, else with other neighbours.
func (h *LocalHost) publish() {
	h.stale = false
	h.generation++
	f := h.facts
	f.Neighbours = slices.Clone(f.Neighbours)
	for i := range h.neighbours {
		if n := &h.neighbours[i]; !n.unused {
			f.Neighbours = append(f.Neighbours, host.Neighbour{Target: n.Target, MAC: n.mac, State: kernelState[n.state], Serial: n.serial})
		}
	}
	if h.snapshot == nil {
		h.snapshot = host.NewSnapshot(f, h.generation)
	} else {
		h.snapshot = h.snapshot.WithNeighbours(f.Neighbours, h.generation, h.changed)
	}
	h.changed = h.changed[:0]
}

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

// findNeighbour is the ARP entry of a neighbour; nil for none.
func (h *LocalHost) findNeighbour(t host.Target) *neighbour {
	for i := range h.neighbours {
		if h.neighbours[i].Target == t {
			return &h.neighbours[i]
		}
	}
	return nil
}

// noteChange makes the next snapshot due, and a neighbour one of those that changed.
func (h *LocalHost) noteChange(t host.Target) {
	h.stale = true
	h.changed = append(h.changed, t)
}

// Use notes that a neighbour was sent to.
func (h *LocalHost) Use(t host.Target) {
	if n := h.findNeighbour(t); n != nil {
		n.used = true
	}
}

// useLearned returns the MAC address of a neighbour that has asked for us, when the first frame is sent to it: it is in no snapshot yet, but in
// the next one.
func (h *LocalHost) useLearned(t host.Target) (wire.MAC, bool) {
	n := h.findNeighbour(t)
	if n == nil || n.state != reachable && n.state != probing {
		return wire.MAC{}, false
	}
	n.unused = false
	return n.mac, true
}

// kernelState is the kernel's name of an ARP state.
var kernelState = [...]host.State{incomplete: unix.NUD_INCOMPLETE, reachable: unix.NUD_REACHABLE, probing: unix.NUD_PROBE, failed: unix.NUD_FAILED}

// requestInterval is how long after a request for a neighbour the next one follows (RFC 1122 section 2.3.2.1: one a second at most).
const requestInterval = clock.Time(1e9)
