package host

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Target is a neighbour's name: an address on an interface.
type Target struct {
	Interface int
	Addr      netip.Addr
}

// State is a neighbour's state as the kernel keeps it (unix.NUD_REACHABLE …).
type State uint16

const (
	usable = unix.NUD_PERMANENT | unix.NUD_NOARP | unix.NUD_REACHABLE | unix.NUD_PROBE | unix.NUD_STALE | unix.NUD_DELAY
	// fixedStates are the states that the administrator or the link sets; asking would take them away, see resolver.request.
	fixedStates = unix.NUD_PERMANENT | unix.NUD_NOARP
)

// String is the state as ip-neighbour writes it.
func (s State) String() string {
	switch {
	case s&unix.NUD_PERMANENT != 0:
		return "PERMANENT"
	case s&unix.NUD_NOARP != 0:
		return "NOARP"
	case s&unix.NUD_REACHABLE != 0:
		return "REACHABLE"
	case s&unix.NUD_PROBE != 0:
		return "PROBE"
	case s&unix.NUD_STALE != 0:
		return "STALE"
	case s&unix.NUD_DELAY != 0:
		return "DELAY"
	case s&unix.NUD_FAILED != 0:
		return "FAILED"
	case s&unix.NUD_INCOMPLETE != 0:
		return "INCOMPLETE"
	}
	return "NONE"
}

// Neighbour is an entry of the kernel's ARP table.
type Neighbour struct {
	Target
	MAC   wire.MAC
	State State
	// Serial is that of the snapshot in which what the entry answers changed last, or the kernel gave up again.
	Serial uint64
}

// Usable reports whether frames may be sent to MAC. A stale or probed entry is still used: the kernel does so too.
func (n *Neighbour) Usable() bool {
	return n.State&usable != 0 && (!n.MAC.IsZero() || n.State&unix.NUD_NOARP != 0)
}

// Failed reports whether the kernel asked and nobody answered.
func (n *Neighbour) Failed() bool { return n.State&unix.NUD_FAILED != 0 }

// neighbourChange is one message about a neighbour.
type neighbourChange struct {
	Neighbour
	gone bool
}

// replaceNeighbours replaces the neighbours of a snapshot that is not published yet by a table that was read whole, and logs what has changed.
func (s *Snapshot) replaceNeighbours(table []Neighbour) {
	was := s.neighbours
	s.neighbours = make(map[Target]Neighbour, len(table))
	for _, n := range table {
		old, had := was[n.Target]
		n.Serial = old.Serial
		if !had || old.answers() != n.answers() {
			n.Serial = s.serial
			s.log.add(n.Target)
		}
		s.neighbours[n.Target] = n
	}
	for t := range was {
		if _, still := s.neighbours[t]; !still {
			s.log.add(t)
		}
	}
}

// changeNeighbour applies one message about a neighbour to a snapshot that is not published yet, whose table is its own, and logs it if the
// answer to senders has changed.
func (s *Snapshot) changeNeighbour(c *neighbourChange) {
	old, had := s.neighbours[c.Target]
	if c.gone {
		if had {
			delete(s.neighbours, c.Target)
			s.log.add(c.Target)
		}
		return
	}
	n := c.Neighbour
	n.Serial = old.Serial
	if !had || old.answers() != n.answers() || n.Failed() { // a failure is news each time: a waiting sender has asked since the last one
		n.Serial = s.serial
		s.log.add(n.Target)
	}
	s.neighbours[n.Target] = n
}

// answers are the properties of a neighbour that senders depend on: only their change is logged.
func (n *Neighbour) answers() (a struct {
	mac            wire.MAC
	usable, failed bool
}) {
	a.mac, a.usable, a.failed = n.MAC, n.Usable(), n.Failed()
	return a
}
