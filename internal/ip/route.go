package ip

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Route is how packets reach a destination: by which link, for which next hop, from which source, how long at the most, and their headers up
// to IPv4, ready. A protocol keeps it beside the flow, and finds it again when it is stale ([Stack.IsCurrent]). It has no pointers: a table
// of routes costs a garbage collection nothing.
type Route struct {
	Header        wire.IPv4Template // complete if Kind is RouteOverLink; of RouteAwaitsNeighbour it lacks the station
	hop           int32             // the next hop, noHop for none
	tables        uint64            // Stack.tables when it was found
	hopGeneration uint32            // the next hop's generation then
	link          int16
	Kind          RouteKind
	Loop          bool   // sockets of this stack get the packets too
	FragmentsHere bool   // longer packets are fragmented by the stack, not by the kernel
	AdvMSS        uint16 // the MSS that TCP announces by the route (advmss), at most what the link can receive; 0: by MTU
	MTU           int32  // longest packet that need not be fragmented
	Interface     int32  // of the host's tables
	Source        wire.Addr
}

// RouteKind says what is done with packets of a route.
type RouteKind uint8

// The kinds.
const (
	RouteNone            RouteKind = iota // FindRoute gave an error
	RouteOverLink                         // they leave by a link
	RouteAwaitsNeighbour                  // they leave by a link once the next hop's station is known
	RouteLocal                            // they leave by no link: they are for sockets of this stack if Loop is set, else for none
	RouteViaKernel                        // only the socket's descriptor leads there
)

// Query asks for a route.
type Query struct {
	Target        wire.Addr
	Source        wire.Addr // of the host's; zero: to be chosen
	Interface     int       // 0: any; else only by this one (SO_BINDTODEVICE, IP_MULTICAST_IF)
	Protocol      uint8
	TOS           uint8
	TTL           uint8
	MulticastTTL  uint8
	MulticastLoop bool
	Broadcast     bool   // SO_BROADCAST is set
	FlowHash      uint32 // chooses among equal routes and among the members of a bond
	Owner         uint64 // the socket, for Config.SendViaKernel and LoopViaKernel
	Port          uint16 // and its peer's port
}

// IsCurrent reports whether a route is still what FindRoute would find.
func (s *Stack) IsCurrent(r *Route) bool {
	return r.tables == s.tables && s.hops.list[r.hop].generation == r.hopGeneration
}

// FindRoute fills a route in, with its error if there is none. It asks for no neighbour: see Resolve.
func (s *Stack) FindRoute(r *Route, q *Query) Errno {
	s.NoRoute(r)
	e := s.findRoute(r, q)
	if e != 0 {
		r.Kind = RouteNone
	}
	return e
}

// NoRoute makes r a route to nowhere, current as long as one that FindRoute has found.
func (s *Stack) NoRoute(r *Route) { *r = Route{tables: s.tables, hop: noHop} }

// Resolve asks for the next hop of a route that awaits it.
func (s *Stack) Resolve(now clock.Time, r *Route) {
	if r.Kind == RouteAwaitsNeighbour {
		s.now = now
		s.host.Resolve(s.hops.list[r.hop].target())
	}
}

// findRoute decides how packets of a query travel, and fills in r: by the kernel, within this stack, or by a link. The host's tables choose
// interface, source and gateway; see the cases for what only the kernel can deliver.
func (s *Stack) findRoute(r *Route, q *Query) Errno {
	if s.config.SendViaKernel != nil && s.config.SendViaKernel(q.Owner, q.Target, q.Port) {
		return r.viaKernel()
	}
	hq := host.Query{Target: q.Target.Netip(), Interface: q.Interface, TOS: q.TOS, FlowHash: q.FlowHash}
	if !q.Source.IsZero() {
		hq.Source = q.Source.Netip()
	}
	w, err := s.snapshot.Route(hq)
	if err != nil {
		var refused *host.RouteError
		if errors.As(err, &refused) {
			if s.localHost == nil && (refused.Errno == unix.EOPNOTSUPP || refused.Errno == unix.EAFNOSUPPORT) {
				return r.viaKernel() // this stack cannot decide, the kernel can
			}
			return refused.Errno
		}
		return unix.ENETUNREACH
	}
	r.Interface = int32(w.Interface)
	if source, ok := wire.AddrFrom(w.Source); ok {
		r.Source = source
	}
	if w.Type == host.Broadcast && !q.Broadcast {
		return unix.EACCES
	}
	l := s.pickLink(w.Interface, q.FlowHash)
	switch {
	case w.Type == host.Local && s.localHost != nil:
		r.Kind, r.Loop, r.MTU = RouteLocal, true, wire.IPv4Max
		return 0
	case w.Type == host.Local, // to sockets of the kernel on this host
		w.Type == host.Broadcast && s.localHost == nil, // they are to receive it as well
		l < 0 && s.localHost == nil:                    // by an interface without a link, or whose links are down
		return r.viaKernel()
	case s.loopsViaKernel(q, w.Interface):
		return r.viaKernel()
	case l < 0:
		return unix.ENETUNREACH
	case r.Source.IsZero():
		return unix.EADDRNOTAVAIL
	}
	r.link = int16(l)
	return s.routeOverLink(r, &w, q)
}

// loopsViaKernel reports whether packets to a group are left to the kernel, so that its sockets on this host receive them. Without LoopViaKernel
// any of its sockets may have joined.
func (s *Stack) loopsViaKernel(q *Query, iface int) bool {
	if s.localHost != nil || !q.MulticastLoop || !q.Target.IsMulticast() { // with a localHost there is no kernel
		return false
	}
	ask := s.config.LoopViaKernel
	return ask == nil || ask(q.Owner, q.Target, q.Port, iface)
}

// viaKernel makes r a route by the socket's descriptor: the kernel fragments packets that are too long, and returns errors.
func (r *Route) viaKernel() Errno {
	r.Kind, r.MTU = RouteViaKernel, wire.IPv4Max
	return 0
}

// routeOverLink completes a route that leaves by a link: its MTU, its next hop and the headers. w is the host's result.
func (s *Stack) routeOverLink(r *Route, w *host.RouteResult, q *Query) Errno {
	l := &s.links[r.link]
	mtu := min(w.MTU, l.MTU, s.pathMTU(q.Target))
	r.FragmentsHere = s.localHost != nil
	if s.config.MTU != 0 && s.config.MTU < mtu {
		mtu, r.FragmentsHere = s.config.MTU, true // the kernel would fragment at the interface's
	}
	r.MTU = int32(mtu)
	r.AdvMSS = uint16(min(w.AdvMSS, l.MTU-wire.IPv4Len-wire.TCPLen))
	eth := wire.EthernetFields{Source: l.MAC, Tag: wire.Tag(l.VLAN)}
	ip := wire.IPv4Fields{TOS: q.TOS, TTL: q.TTL, Protocol: q.Protocol, Source: r.Source, Target: q.Target}
	r.Kind = RouteOverLink
	switch w.Type {
	case host.Multicast:
		eth.Target, ip.TTL = wire.GroupMAC(q.Target), q.MulticastTTL
		r.Loop = q.MulticastLoop
		if q.MulticastTTL == 0 { // it stays on this host
			r.Kind = RouteLocal
			return 0
		}
	case host.Broadcast:
		eth.Target, r.Loop = wire.Broadcast, true
	default:
		t := w.NextHop(q.Target.Netip())
		addr, _ := wire.AddrFrom(t.Addr)
		r.hop = s.nextHop(t.Interface, addr)
		h := &s.hops.list[r.hop]
		r.hopGeneration = h.generation
		if eth.Target = h.mac; !h.known {
			r.Kind = RouteAwaitsNeighbour
		}
	}
	var err error
	if r.Header, err = wire.NewIPv4Template(eth, ip); err != nil {
		return unix.EINVAL
	}
	return 0
}
