package host

// neighbourLog lists the neighbours whose answers have changed, in order: a reader that remembers how far it has read only looks at later
// entries. Snapshots share the array. Only the newest snapshot's log is appended to, behind the end that the others have.
//
//	array     t0 t1 t2 t3 t4 …
//	snapshot        ▲ (n = 3) next one: ▲ (n = 5)
type neighbourLog struct {
	first uint64 // number of the first in the list: those before are forgotten
	list  []Target
}

// logKept is how many are kept at the least.
const logKept = 1024

// add appends a neighbour. When the array is full its newer half is copied into a new one, because older snapshots read the old one.
func (l *neighbourLog) add(t Target) {
	if len(l.list) == 2*logKept { // older snapshots read the array: another one is made
		l.first += logKept
		l.list = append(make([]Target, 0, 2*logKept), l.list[logKept:]...)
	}
	l.list = append(l.list, t)
}

// NeighbourChanges is how often an answer of Neighbour has changed, or a failure was repeated, up to this snapshot.
func (s *Snapshot) NeighbourChanges() uint64 { return s.log.first + uint64(len(s.log.list)) }

// ChangedNeighbours lists the neighbours of the changes from number since on; one may be there more than once. The slice is shared: read only.
// False: too many have changed, and any may have.
func (s *Snapshot) ChangedNeighbours(since uint64) ([]Target, bool) {
	if since < s.log.first || since > s.NeighbourChanges() {
		return nil, false
	}
	return s.log.list[since-s.log.first:], true
}

// Change is what a watcher receives (Host.Watch).
type Change struct {
	Tables     bool     // links, addresses, routes or rules, or more neighbours than the log has
	Neighbours []Target // whose answers have changed, or that have failed again; shared: read only
}

// WithNeighbours is a copy of a snapshot made by NewSnapshot with other neighbours. changed are those whose answers differ from before; serial
// is the number of the new snapshot, which Neighbour.Serial is compared with.
func (s *Snapshot) WithNeighbours(list []Neighbour, serial uint64, changed []Target) *Snapshot {
	next := &Snapshot{generation: s.generation, serial: serial, topology: s.topology, neighbours: make(map[Target]Neighbour, len(list)), log: s.log}
	for _, n := range list {
		next.neighbours[n.Target] = n
	}
	for _, t := range changed {
		next.log.add(t)
	}
	return next
}
