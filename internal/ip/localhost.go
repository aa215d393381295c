package ip

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/host"
)

// LocalHost is the host of a stack without a kernel: addresses and routes that it is given, neighbours that it finds by ARP (neighbour.go).
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

// publishIfStale makes the snapshot that is due: one for all that a burst of frames has changed.
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

// kernelState is the kernel's name of an ARP state.
var kernelState = [...]host.State{incomplete: unix.NUD_INCOMPLETE, reachable: unix.NUD_REACHABLE, probing: unix.NUD_PROBE, failed: unix.NUD_FAILED}
