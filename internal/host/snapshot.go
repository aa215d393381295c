package host

import (
	"maps"
	"net/netip"
	"slices"
)

// Facts are the kernel's tables as they were read: in the kernel's order, which decides between equals. A test or a
// simulated world writes its own.
type Facts struct {
	Links          []Link
	RemoteChildren []Child // that stand on our links, in other namespaces
	Addresses      []Address
	Routes         []Route
	Rules          int // routing rules beside the three that every host has
	Neighbours     []Neighbour
	PathMTUs       map[netip.Addr]int // learned, by destination (RFC 1191); never written to again
}

// Snapshot is the host at one moment. It never changes; any goroutine may read it for as long as it likes.
type Snapshot struct {
	generation uint64
	serial     uint64 // moves with every snapshot
	*topology
	neighbours map[Target]Neighbour
	log        neighbourLog
}

// topology is all but the neighbours, which change far more often: consecutive snapshots share it.
type topology struct {
	links          []Link
	remoteChildren []Child
	byIndex        map[int]*Link
	addresses      []Address
	local          map[netip.Addr]int
	broadcast      map[Target]struct{}
	rules          int
	tables         [numTables]table // in the order of lookup
	members        map[int][]int
	loopback       int
	pathMTU        map[netip.Addr]int
}

// NewSnapshot makes a snapshot of facts that did not come from a kernel. generation is what its Generation returns.
func NewSnapshot(f Facts, generation uint64) *Snapshot {
	s := &Snapshot{generation: generation, serial: generation, topology: newTopology(&f),
		neighbours: make(map[Target]Neighbour, len(f.Neighbours))}
	for _, n := range f.Neighbours {
		s.neighbours[n.Target] = n
	}
	return s
}

// Generation moves when an answer of all but Neighbour may have changed. See Host.Generation.
func (s *Snapshot) Generation() uint64 { return s.generation }

// Links are all interfaces in the kernel's order. The slice is shared: read only.
func (s *Snapshot) Links() []Link { return s.links }

// Link is the interface with this index; false when there is none.
func (s *Snapshot) Link(index int) (Link, bool) {
	if l := s.byIndex[index]; l != nil {
		return *l, true
	}
	return Link{}, false
}

// LinkByName is the interface with this name; false when there is none.
func (s *Snapshot) LinkByName(name string) (Link, bool) {
	for i := range s.links {
		if s.links[i].Name == name {
			return s.links[i], true
		}
	}
	return Link{}, false
}

// Members are the interfaces whose master is this one. The slice is shared: read only.
func (s *Snapshot) Members(index int) []int { return s.members[index] }

// Addresses are all addresses, the kernel's order within an interface. The slice is shared: read only.
func (s *Snapshot) Addresses() []Address { return s.addresses }

// Local is the interface that has the address.
func (s *Snapshot) Local(a netip.Addr) (index int, ok bool) {
	index, ok = s.local[a]
	return index, ok
}

// IsBroadcast reports whether the address is the limited broadcast or the interface's own.
func (s *Snapshot) IsBroadcast(index int, a netip.Addr) bool {
	_, ok := s.broadcast[Target{index, a}]
	return ok || a == limitedBroadcast
}

// Neighbour is the kernel's entry for a neighbour; false when it has none.
func (s *Snapshot) Neighbour(t Target) (Neighbour, bool) {
	n, ok := s.neighbours[t]
	return n, ok
}

// NumNeighbours is the size of the table.
func (s *Snapshot) NumNeighbours() int { return len(s.neighbours) }

var limitedBroadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// newTopology copies facts and makes the indexes that lookups use.
func newTopology(f *Facts) *topology {
	t := &topology{
		links: slices.Clone(f.Links), remoteChildren: slices.Clone(f.RemoteChildren), addresses: slices.Clone(f.Addresses), rules: f.Rules,
		byIndex: make(map[int]*Link, len(f.Links)), members: map[int][]int{},
		local: make(map[netip.Addr]int, len(f.Addresses)), broadcast: map[Target]struct{}{}, pathMTU: f.PathMTUs,
	}
	for i := range t.links {
		l := &t.links[i]
		t.byIndex[l.Index] = l
		if l.Master != 0 {
			t.members[l.Master] = append(t.members[l.Master], l.Index)
		}
		if l.Loopback() && t.loopback == 0 {
			t.loopback = l.Index
		}
	}
	for _, a := range t.addresses {
		if _, twice := t.local[a.Local]; !twice {
			t.local[a.Local] = a.Interface
		}
		if a.Broadcast.IsValid() {
			t.broadcast[Target{a.Interface, a.Broadcast}] = struct{}{}
		}
	}
	for _, r := range f.Routes {
		if n, known := tableOf(r.Table); known {
			r.Hops = slices.Clone(r.Hops)
			t.tables[n].insert(r)
		}
	}
	for i := range t.tables {
		t.tables[i].sort()
	}
	return t
}

// equal reports whether two topologies answer alike.
func (t *topology) equal(u *topology) bool {
	if t.rules != u.rules || !slices.Equal(t.links, u.links) || !slices.Equal(t.remoteChildren, u.remoteChildren) ||
		!slices.Equal(t.addresses, u.addresses) || !maps.Equal(t.pathMTU, u.pathMTU) {
		return false
	}
	for i := range t.tables {
		if !t.tables[i].equal(&u.tables[i]) {
			return false
		}
	}
	return true
}
