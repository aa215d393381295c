package ip

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// A next hop is a neighbour that routes lead to. It lives apart from them: when it answers from another station, its generation moves, and
// those routes alone are stale that lead to it. The other changes, of links, addresses and routes, move Stack.tables: then all routes are
// stale, and the next hops are found again with them.
//
//	what changes                          moves                          stale
//	links, addresses, routes, path MTUs   Stack.tables                   every route
//	one neighbour's station               nextHop.generation             routes to it
//	either                                Stack.routeGeneration          to be compared again: Stack.IsCurrent
type nextHop struct {
	addr       wire.Addr
	iface      int32
	generation uint32
	mac        wire.MAC
	known      bool // mac is its station
	used       bool // frames left for it since the last sweep
}

// nextHops are the next hops of routes that were found since the tables changed last. Place 0 (noHop) is for routes without one: always in
// use, never changed, so that no send has to ask whether there is one.
type nextHops struct {
	list  []nextHop
	index map[hopKey]int32
	hand  int // where the search for an unused one goes on

	sweep clock.Time // when those in use are kept alive, while used
	used  bool
}

type hopKey struct {
	iface int32
	addr  wire.Addr
}

const (
	nextHopLimit = 2048
	noHop        = int32(0)
	sweepEvery   = clock.Time(1e9)
)

// reset removes all. Routes that lead to one are stale by Stack.tables.
func (h *nextHops) reset() {
	h.list = append(h.list[:0], nextHop{used: true})
	clear(h.index)
	h.used, h.hand = false, 0
}

// deadline is when keepNeighboursAlive has something to do.
func (h *nextHops) deadline() clock.Time {
	if h.used {
		return h.sweep
	}
	return clock.Never
}

// nextHop is the place of a neighbour among the next hops, as it is now.
func (s *Stack) nextHop(iface int, addr wire.Addr) int32 {
	key := hopKey{int32(iface), addr}
	i, ok := s.hops.index[key]
	if ok {
		s.refreshHop(i)
		i, ok = s.hops.index[key] // a protocol that was notified may have found routes: another next hop may be there
	}
	if ok {
		return i
	}
	h := nextHop{addr: addr, iface: int32(iface)}
	if len(s.hops.list) < nextHopLimit {
		i = int32(len(s.hops.list))
		s.hops.list = append(s.hops.list, h)
	} else {
		i = s.replaceHop()
		h.generation = s.hops.list[i].generation + 1
		s.hops.list[i] = h
		s.routeGeneration++ // routes to the one that was there are found again
	}
	s.hops.index[key] = i
	n := &s.hops.list[i]
	n.mac, n.known = s.station(n.target())
	return i
}

// replaceHop removes a next hop and returns its place: one that was not used in the last second, if there is any.
func (s *Stack) replaceHop() int32 {
	h := &s.hops
	for range h.list {
		if h.hand = h.hand%(len(h.list)-1) + 1; !h.list[h.hand].used {
			break
		}
	}
	old := &h.list[h.hand]
	delete(h.index, hopKey{old.iface, old.addr})
	return int32(h.hand)
}

func (h *nextHop) target() host.Target {
	return host.Target{Interface: int(h.iface), Addr: h.addr.Netip()}
}

// station is the address of a neighbour's station, if it is known.
func (s *Stack) station(t host.Target) (wire.MAC, bool) {
	if n, ok := s.snapshot.Neighbour(t); ok && n.Usable() {
		return n.MAC, true
	}
	if s.localHost != nil {
		return s.localHost.useLearned(t)
	}
	return wire.MAC{}, false
}

// refreshHop reads a next hop's station from the host's tables. If it has changed, the routes to it are stale and the protocols are notified.
func (s *Stack) refreshHop(i int32) {
	h := &s.hops.list[i]
	mac, known := s.station(h.target())
	if mac == h.mac && known == h.known {
		return
	}
	h.mac, h.known = mac, known
	h.generation++
	s.routeGeneration++
	s.notify(Change{Kind: NextHopChanged, Addr: h.addr, Interface: int(h.iface)})
}

// followNeighbours refreshes the next hops whose neighbours have changed since a number of the snapshot's log.
func (s *Stack) followNeighbours(since uint64) {
	list, ok := s.snapshot.ChangedNeighbours(since)
	if !ok { // more than the log holds: any may have changed
		for i := range s.hops.list[1:] {
			s.refreshHop(int32(i) + 1)
		}
		return
	}
	for _, t := range list {
		if a, v4 := wire.AddrFrom(t.Addr); v4 {
			if i, ok := s.hops.index[hopKey{int32(t.Interface), a}]; ok {
				s.refreshHop(i)
			}
		}
	}
}

// useHop notes that frames leave for a next hop. The first such frame since the last keepNeighboursAlive sets the time of the next one.
func (s *Stack) useHop(now clock.Time, i int32) {
	s.hops.list[i].used = true
	if !s.hops.used {
		s.hops.used, s.hops.sweep = true, now+sweepEvery
	}
}

// keepNeighboursAlive reports to the host the neighbours that frames were sent to since its last report, at most once per sweepEvery. The kernel
// confirms only neighbours that it sees used (NUD_STALE to NUD_DELAY), and it does not see our frames.
func (s *Stack) keepNeighboursAlive(now clock.Time) {
	if !s.hops.used || now < s.hops.sweep {
		return
	}
	s.hops.used = false
	for i := range s.hops.list[1:] { // place 0 stands for no next hop
		if h := &s.hops.list[i+1]; h.used {
			h.used = false
			s.host.Use(h.target())
		}
	}
}

// RouteGeneration moves whenever a route may be stale: a holder of anything made of one compares it with what it was then, before it asks
// IsCurrent. The pointer may be kept.
func (s *Stack) RouteGeneration() *uint64 { return &s.routeGeneration }

// MoveRouteGeneration is for protocols: what they have made of a route is to be made again, though the route may still be current.
func (s *Stack) MoveRouteGeneration() { s.routeGeneration++ }

// InvalidateRoutes makes all routes stale, because an answer of LoopViaKernel has changed, a link, or the host's tables.
func (s *Stack) InvalidateRoutes() {
	s.markRoutesStale()
	s.notify(Change{Kind: TablesChanged})
}

// markRoutesStale makes all routes stale without notifying the protocols.
func (s *Stack) markRoutesStale() {
	s.tables++
	s.routeGeneration++
	s.hops.reset()
}
