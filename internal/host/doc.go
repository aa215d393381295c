// Package host mirrors the kernel's tables of a network namespace: links, addresses, routes, neighbours. The stack of offloaded rings looks
// them up here, because it asks often; the kernel stays the authority.
//
//	h, err := host.Open(host.Config{})                  // or {Namespace: "/run/netns/market"}
//	s := h.Snapshot()                                   // one atomic load
//	route, err := s.Route(host.Query{Target: dst})      // interface, gateway, source, MTU; or ENETUNREACH …
//	n, ok := s.Neighbour(route.NextHop(dst))            // the MAC address, if it is known
//	...
//	if h.Snapshot() != s { what has changed? }          // per turn: one atomic load and a compare
//
// # Snapshots
//
// A Snapshot never changes and is read without a lock by any goroutine. One goroutine of the Host, the mirror, waits for
// netlink notifications and publishes the next one. It is a goroutine of its own, not pumped by the rings' owners, because
// one Host serves all rings of an engine, because an owner that polls busily would pay a system call a turn for an event a
// minute, and because an owner that sleeps or runs a long handler would leave the others with old routes.
//
// The generation moves when a link, an address, a route or a rule has changed. Neighbours have a life of their own: whose MAC address is
// another, who became usable or ceased to be, is in a log that the snapshots share, and a user of some looks for those alone.
//
//	what has changed                                   in the snapshot                     watchers
//	links, addresses, routes, rules                    Generation moves                    called
//	a neighbour's MAC, whether it is usable; failures  NeighbourChanges, and the log says whose   called, with its name
//	REACHABLE, STALE, DELAY, PROBE with one MAC        only its state                      not called
//
// Links, addresses, routes and rules are read again when anything was said about them; why not patched, see notifications.
// Reading is spaced so that it costs a fifth of a core at most, however fast they change. Neighbours are patched. When the
// kernel had to drop notifications (ENOBUFS) everything is read again, and Stats.Overruns counts it. Between a change and
// the snapshot that shows it lies the time of the read: 0.3 ms in the median on two busy cores. A program whose loops spin on
// every processor it may use adds the up to 10 ms after which the Go scheduler looks at descriptors all the same.
//
// # Routes
//
// Route answers as the kernel's own lookup would, source address included; tests compare the two on random tables. It
// reads the tables local, main and default. Once a host has had rules of its own the kernel keeps local and main apart, also after the
// last rule is gone; that is not visible. Routing rules beyond the usual three, encapsulations and IPv6 gateways are
// recognised and refused with a reason: such a socket belongs on the kernel's path. Path MTUs that the kernel has learned by
// ICMP bound RouteResult.MTU: a raw socket (CAP_NET_RAW) reports when to ask the kernel, on a goroutine of its own; without the
// privilege what was learned before Open holds. fib_multipath_hash_policy has no meaning, the caller brings the flow's hash.
//
// # Neighbours
//
// The kernel speaks ARP. Resolve asks it to look for a neighbour (NTF_USE; without CAP_NET_ADMIN an empty datagram to the
// discard port), once a second at most for one that does not answer. Hop keeps an entry alive while packets are sent to it. Waiting holds
// packets until the answer comes: bounded, in order, with a reason for each one given up.
//
//	hop, err := h.Hold(route.NextHop(dst))              // per flow
//	hop.Touch()                                         // per send: one load
//	if n, ok := s.Neighbour(hop.Target); !ok || !n.Usable() {
//		waiting.Add(now, s, hop.Target, packet)
//		h.Resolve(hop.Target)
//	}
//	waiting.Check(h.Snapshot(), send)                   // per turn: a compare
//
// # Kinds of link
//
// Path decides for each interface whether frames can be had from it, from which interfaces' queues, with which tag, and
// gives the reason for a yes as well as for a no.
//
// Only IPv4 is mirrored. The package is for Linux.
package host
