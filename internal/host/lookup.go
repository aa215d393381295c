package host

import (
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// Query asks for the route to an address.
type Query struct {
	Target    netip.Addr
	Source    netip.Addr // zero: to be chosen; else an address of the host
	Interface int        // 0: any; else only through this one (SO_BINDTODEVICE, IP_MULTICAST_IF)
	TOS       uint8
	FlowHash  uint32 // chooses among the next hops of a multipath route; the same hash, the same next hop
}

// RouteResult is what Snapshot.Route finds.
type RouteResult struct {
	Type      RouteType // Unicast, Local, Broadcast or Multicast
	Interface int
	Gateway   netip.Addr // zero: the destination is on the link
	Source    netip.Addr // zero when no interface has an address
	MTU       int        // of the path, as far as it is known
	AdvMSS    int        // Route.AdvMSS
	Scope     uint8
}

// NextHop is whom to ask for a MAC address: the gateway, or the destination itself. It has no meaning for groups and
// broadcasts, whose MAC follows from the address.
func (w *RouteResult) NextHop(target netip.Addr) Target {
	if w.Gateway.IsValid() {
		return Target{w.Interface, w.Gateway}
	}
	return Target{w.Interface, target}
}

// RouteError says why there is no route. It unwraps to the errno that the kernel's own send would have returned.
type RouteError struct {
	Target netip.Addr
	Code   string        // stable: "route.none", "route.unreachable" …
	Errno  syscall.Errno // ENETUNREACH, EHOSTUNREACH …
}

// Error is the failure in a sentence.
func (e *RouteError) Error() string {
	return fmt.Sprintf("host: route to %v: %s: %s", e.Target, e.Code, e.Errno.Error())
}

// Unwrap gives the errno.
func (e *RouteError) Unwrap() error { return e.Errno }

// Route answers as the kernel would: local and main as one table, then default (fib_lookup, linux/include/net/ip_fib.h); longest prefix, TOS,
// metric; dead next hops left out; the source by ip_route_output_key (linux/net/ipv4/route.c). Any goroutine; it allocates only for an error.
//
// When a route of main forbids and the table default has routes, Linux 6.1 asks that table and 6.18 stops: the error's code is
// "route.tables" and its errno EOPNOTSUPP.
//
// When the host has routing rules of its own, only the kernel can tell: the error's code is "route.rules" and its errno
// EOPNOTSUPP, and the socket belongs on the kernel's path.
func (s *Snapshot) Route(q Query) (RouteResult, error) {
	w, err := s.route(q)
	if mtu, ok := s.pathMTU[q.Target]; ok && err == nil && w.Type == Unicast {
		w.MTU = min(w.MTU, mtu)
	}
	return w, err
}

// route is Route without path MTUs. Its cases are those of ip_route_output_key_hash_rcu, in its order.
func (s *Snapshot) route(q Query) (RouteResult, error) {
	fail := func(code string, errno syscall.Errno) (RouteResult, error) {
		return RouteResult{}, &RouteError{Target: q.Target, Code: code, Errno: errno}
	}
	switch {
	case !q.Target.Is4() || q.Target.IsUnspecified():
		return fail("route.target", unix.EAFNOSUPPORT)
	case q.Source.IsValid() &&
		(!q.Source.Is4() || q.Source.IsUnspecified() || q.Source.IsMulticast() || q.Source == limitedBroadcast):
		return fail("route.source", unix.EINVAL)
	case s.rules != 0:
		return fail("route.rules", unix.EOPNOTSUPP)
	}
	group := q.Target.IsMulticast()
	several := group || q.Target == limitedBroadcast
	if q.Source.IsValid() {
		index, ok := s.local[q.Source]
		if !ok {
			// An address that no interface has and a local route covers, as 127.0.0.0/8 is (__ip_dev_find, linux/net/ipv4/devinet.c).
			w, err := s.Route(Query{Target: q.Source})
			if err != nil || w.Type != Local {
				return fail("route.source", unix.EADDRNOTAVAIL)
			}
			index = w.Interface
		}
		if several && q.Interface == 0 {
			// The source names the interface: applications without IP_MULTICAST_IF rely on it.
			return s.onLink(q, index)
		}
	}
	if q.Interface != 0 {
		switch l := s.byIndex[q.Interface]; {
		case l == nil:
			return fail("route.no_interface", unix.ENODEV)
		case !l.Up():
			return fail("route.interface_down", unix.ENETUNREACH)
		}
		if q.Target.IsLinkLocalMulticast() || q.Target == limitedBroadcast {
			return s.onLink(q, q.Interface)
		}
	}
	var last verdict
	for i := range s.tables {
		if i == byDefault && s.tables[i].empty() {
			break // the kernel makes that table with its first route
		}
		var way RouteResult
		way, last = s.tables[i].find(s.topology, &q)
		switch {
		case last.found && q.Source.IsLoopback() && !s.byIndex[way.Interface].Loopback(): // __mkroute_output, linux/net/ipv4/route.c
			return fail("route.source", unix.EINVAL)
		case last.found:
			return way, nil
		case last.errno == unix.EOPNOTSUPP: // what the kernel would find is not known
			return fail(last.code, last.errno)
		case i == localAndMain && last.code != "" && !s.tables[byDefault].empty():
			return fail("route.tables", unix.EOPNOTSUPP)
		}
	}
	switch {
	case q.Interface != 0:
		return s.onLink(q, q.Interface)
	case last.code != "":
		return fail(last.code, last.errno)
	}
	return fail("route.none", unix.ENETUNREACH)
}

// onLink is the result for a destination that needs no route. For a socket that is bound to an interface, a destination without a route, or
// with one that forbids, counts as on the interface's link: ip_route_output_key_hash_rcu does the same.
func (s *Snapshot) onLink(q Query, index int) (RouteResult, error) {
	l := s.byIndex[index]
	if l == nil {
		return RouteResult{}, &RouteError{Target: q.Target, Code: "route.no_interface", Errno: unix.ENODEV}
	}
	w := RouteResult{Type: typeOf(Unicast, q.Target), Interface: index, Source: q.Source, MTU: min(l.MTU, 0xffff), Scope: unix.RT_SCOPE_LINK}
	if !w.Source.IsValid() {
		scope := uint8(unix.RT_SCOPE_LINK)
		if w.Type == Multicast && !q.Target.IsLinkLocalMulticast() {
			scope = unix.RT_SCOPE_UNIVERSE
		}
		w.Source = s.selectSource(index, netip.Addr{}, scope)
	}
	return w, nil
}

// typeOf is the type of a packet to an address: broadcast or multicast by its address, else as its route says.
func typeOf(t RouteType, to netip.Addr) RouteType {
	switch {
	case to == limitedBroadcast:
		return Broadcast
	case to.IsMulticast():
		return Multicast
	}
	return t
}

// verdict is the answer of one table: a route was found, none was, or an error of a route that forbids.
type verdict struct {
	found bool
	code  string
	errno syscall.Errno
}

// find is the lookup in one table: the first route that matches and has a living next hop decides.
func (t *table) find(s *topology, q *Query) (way RouteResult, v verdict) {
	t.lookup(q.Target, func(r *Route) bool {
		if r.TOS != 0 && r.TOS != q.TOS {
			return false
		}
		switch r.Type {
		case Blackhole:
			v = verdict{code: "route.blackhole", errno: unix.EINVAL}
			return true
		case Unreachable:
			v = verdict{code: "route.unreachable", errno: unix.EHOSTUNREACH}
			return true
		case Prohibit:
			v = verdict{code: "route.prohibit", errno: unix.EACCES}
			return true
		case Throw:
			return true
		case Unicast, Local, Broadcast, Multicast:
		default:
			v = verdict{code: "route.type", errno: unix.EOPNOTSUPP} // NAT, xresolve: nothing makes them any more
			return true
		}
		hop := s.chooseHop(r, q)
		if hop == nil {
			return false // all its next hops are dead or through other interfaces
		}
		if hop.Unsupported {
			v = verdict{code: "route.foreign", errno: unix.EOPNOTSUPP}
			return true
		}
		way, v.found = s.result(r, hop, q), true
		return true
	})
	return way, v
}

// chooseHop chooses the next hop of a flow by the kernel's rule (hash threshold, RFC 2992): each next hop has a part of the hash's range by its
// weight, so that the flows of the others stay when one goes. Next hops from whose interface the given source comes are preferred, as in
// Linux 6.18 (6.1 does not look at the source). nil: none is alive.
func (s *topology) chooseHop(r *Route, q *Query) *NextHop {
	var total, preferred int
	var first *NextHop
	for i := range r.Hops {
		h := &r.Hops[i]
		if !s.isAlive(h, q) {
			continue
		}
		if first == nil {
			first = h
		}
		total += h.Weight
		if s.hasSource(h, r, q) {
			preferred += h.Weight
		}
	}
	if total == 0 || total == first.Weight {
		return first
	}
	if preferred != 0 {
		total = preferred
	}
	sum, hash := uint64(0), uint64(q.FlowHash>>1)
	for i := range r.Hops {
		h := &r.Hops[i]
		if !s.isAlive(h, q) || preferred != 0 && !s.hasSource(h, r, q) {
			continue
		}
		sum += uint64(h.Weight)
		if hash < (sum<<31+uint64(total)/2)/uint64(total) {
			return h
		}
	}
	return first
}

// isAlive reports whether a next hop can be used for the query. The routes may have been read just before their link went down, so
// the link's own state counts too.
func (s *topology) isAlive(h *NextHop, q *Query) bool {
	l := s.byIndex[h.Interface]
	return !h.Dead && l != nil && l.Up() && (q.Interface == 0 || q.Interface == h.Interface)
}

// hasSource reports whether the query's source is the one that packets by this next hop would have.
func (s *topology) hasSource(h *NextHop, r *Route, q *Query) bool {
	return q.Source.IsValid() && s.source(r, h) == q.Source
}

// result makes the result of a query from a route and one of its next hops.
func (s *topology) result(r *Route, h *NextHop, q *Query) RouteResult {
	w := RouteResult{Type: typeOf(r.Type, q.Target), Interface: h.Interface, Gateway: h.Gateway, Source: q.Source, AdvMSS: r.AdvMSS, Scope: r.Scope}
	if r.Type == Local {
		if s.loopback != 0 {
			w.Interface = s.loopback
		}
		if !w.Source.IsValid() {
			if w.Source = r.Source; !w.Source.IsValid() {
				w.Source = q.Target
			}
		}
	}
	if w.Type == Multicast || w.Type == Broadcast {
		w.Gateway = netip.Addr{} // a default route chooses the interface only
	}
	if !w.Source.IsValid() {
		switch {
		case w.Type == Multicast && q.Interface != 0:
			w.Source = s.selectSource(h.Interface, netip.Addr{}, unix.RT_SCOPE_UNIVERSE)
		default:
			w.Source = s.source(r, h)
		}
	}
	if l := s.byIndex[w.Interface]; l != nil {
		w.MTU = min(l.MTU, 0xffff)
	}
	if r.MTU != 0 && r.MTU < w.MTU {
		w.MTU = r.MTU
	}
	return w
}

// source is the source address of packets that leave by a next hop of a route.
func (s *topology) source(r *Route, h *NextHop) netip.Addr {
	if r.Source.IsValid() {
		return r.Source
	}
	return s.selectSource(h.Interface, h.Gateway, r.Scope)
}

// selectSource is inet_select_addr (linux/net/ipv4/devinet.c): the first primary address of the interface in whose subnet the
// gateway is, else its first, else any other interface's. Larger scopes are narrower.
func (s *topology) selectSource(index int, to netip.Addr, scope uint8) (found netip.Addr) {
	for i := range s.addresses {
		a := &s.addresses[i]
		if a.Interface != index || a.Secondary || min(a.Scope, unix.RT_SCOPE_HOST) > scope {
			continue
		}
		if !to.IsValid() || a.Prefix.Contains(to) {
			return a.Local
		}
		if !found.IsValid() {
			found = a.Local
		}
	}
	if found.IsValid() {
		return found
	}
	for i := range s.addresses {
		if a := &s.addresses[i]; !a.Secondary && a.Scope != unix.RT_SCOPE_LINK && a.Scope <= scope {
			return a.Local
		}
	}
	return netip.Addr{}
}
