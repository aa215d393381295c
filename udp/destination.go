package udp

import (
	"math/bits"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// destinationCount is the size of the cache of destinations: one place for each address and port of a socket, by hash, the newest has it.
const destinationCount = 1024

// destination is the cached route and headers for one socket's datagrams to one address and port. It has no pointers, so that the garbage
// collector skips the table, and is two cache lines long.
type destination struct {
	route   ip.Route
	head    wire.UDPHead
	port    uint16
	checked uint64 // the generation of the stack's routes at which it was current last; 0: the place is empty
	serial  uint32 // unique for each destination found: a caller that has it need not compare socket and address
	id      ID
	to      wire.Addr
	whole   int32    // longest payload that need not be fragmented
	changes uint64   // of sockets when it was made
	errno   ip.Errno // why there is no route
}

// Prepared is the result of Prepare, which a transport keeps for the sends that follow.
type Prepared struct {
	Route  int32  // the place of the destination, for SendSlow
	Serial uint32 // and this, for SendFast
	Head   int    // length of the headers that SendFast writes; 0: it does not serve here
	Limit  int    // longest payload in bytes
	Kernel bool   // only the socket's descriptor leads there
}

// Prepare finds the route to a destination, asks for its neighbour and makes its headers. The result holds until the generation of the stack's
// routes moves (ip.Stack.RouteGeneration).
func (u *Protocol) Prepare(now clock.Time, id ID, to wire.Addr, port uint16) (Prepared, ip.Errno) {
	i := u.findDestination(id, to, port)
	x := &u.destinations[i]
	if x.errno != 0 {
		return Prepared{}, x.errno
	}
	u.stack.Resolve(now, &x.route)
	return Prepared{Route: i, Serial: x.serial, Head: u.fastHead(x), Limit: u.limit(x), Kernel: x.route.Kind == ip.RouteViaKernel}, 0
}

// findDestination returns the cache's place of a destination, and finds its route again if that is stale.
func (u *Protocol) findDestination(id ID, to wire.Addr, port uint16) int32 {
	i := destinationPlace(id, to, port)
	x := &u.destinations[i]
	if !u.isCurrent(x, id, to, port) {
		u.foundCount++
		u.stats.Found++
		*x = destination{id: id, to: to, port: port, changes: u.changes, serial: u.foundCount}
		x.errno = u.findRoute(x)
		x.checked = *u.generation
	}
	return i
}

// destinationPlace is the place of a destination in the cache, by hash.
func destinationPlace(id ID, to wire.Addr, port uint16) int32 {
	const odd = 0x9e3779b97f4a7c15
	hi, lo := bits.Mul64(uint64(to.Uint32())<<16|uint64(port), odd)
	return int32((hi ^ lo>>32 ^ uint64(id)*odd>>40) % destinationCount)
}

// isCurrent reports whether a place has the destination, and what was found for it still holds.
func (u *Protocol) isCurrent(x *destination, id ID, to wire.Addr, port uint16) bool {
	if x.id != id || x.to != to || x.port != port || x.checked == 0 {
		return false
	}
	if x.checked != *u.generation {
		if x.changes != u.changes || !u.stack.IsCurrent(&x.route) {
			return false
		}
		x.checked = *u.generation
	}
	return true
}

// findRoute fills in route and headers of a destination whose socket, address and port are set.
func (u *Protocol) findRoute(x *destination) ip.Errno {
	if x.port == 0 || x.to.IsZero() {
		u.stack.NoRoute(&x.route)
		return ip.EINVAL
	}
	e, o := u.table.Endpoint(x.id), &u.sockets[x.id].options
	q := ip.Query{Target: x.to, Interface: int(e.Interface), Protocol: wire.ProtocolUDP, TOS: o.TOS, TTL: o.TTL,
		MulticastTTL: o.MulticastTTL, MulticastLoop: o.MulticastLoop, Broadcast: o.Broadcast, Owner: e.Owner, Port: x.port,
		FlowHash: x.to.Uint32()*0x9e3779b1 ^ uint32(x.port)<<16 ^ uint32(e.LocalPort)}
	if !e.Local.IsMulticast() && u.stack.AddressKind(e.Local, e.Interface) != ip.AddressBroadcast {
		q.Source = e.Local
	}
	if x.to.IsMulticast() && q.Interface == 0 {
		q.Interface = o.MulticastInterface
	}
	if errno := u.stack.FindRoute(&x.route, &q); errno != 0 {
		return errno
	}
	x.whole = x.route.MTU - wire.IPv4Len - wire.UDPLen
	if k := x.route.Kind; k == ip.RouteOverLink || k == ip.RouteAwaitsNeighbour {
		var err error
		if x.head, err = wire.NewUDPHead(&x.route.Header, e.LocalPort, x.port); err != nil {
			return ip.EINVAL
		}
	}
	return 0
}

// limit is the longest payload for a destination.
func (u *Protocol) limit(x *destination) int {
	if u.fragment {
		return wire.UDPMax
	}
	return int(x.whole)
}

// headLen is how long the headers of a destination over a link are.
func (x *destination) headLen() int { return x.route.Header.Len() + wire.UDPLen }

// fastHead is how long the headers are that SendFast writes for a destination; 0 when a datagram for it needs more than headers and a
// queue: no link, a neighbour that is not known, sockets of this stack that receive it, a pool without room for headers.
func (u *Protocol) fastHead(x *destination) int {
	if n := x.headLen(); x.route.Kind == ip.RouteOverLink && !x.route.Loop && n <= u.pool.Layout().Headroom {
		return n
	}
	return 0
}
