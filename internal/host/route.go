package host

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// RouteType is what a route does with a packet (unix.RTN_UNICAST …).
type RouteType uint8

const (
	Unicast     = RouteType(unix.RTN_UNICAST)
	Local       = RouteType(unix.RTN_LOCAL)
	Broadcast   = RouteType(unix.RTN_BROADCAST)
	Multicast   = RouteType(unix.RTN_MULTICAST)
	Blackhole   = RouteType(unix.RTN_BLACKHOLE)
	Unreachable = RouteType(unix.RTN_UNREACHABLE)
	Prohibit    = RouteType(unix.RTN_PROHIBIT)
	Throw       = RouteType(unix.RTN_THROW)
)

// String is the type as ip-route writes it.
func (t RouteType) String() string {
	switch t {
	case Unicast:
		return "unicast"
	case Local:
		return "local"
	case Broadcast:
		return "broadcast"
	case Multicast:
		return "multicast"
	case Blackhole:
		return "blackhole"
	case Unreachable:
		return "unreachable"
	case Prohibit:
		return "prohibit"
	case Throw:
		return "throw"
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// Route is one IPv4 route of the tables local, main and default.
type Route struct {
	Table    uint32 // unix.RT_TABLE_LOCAL …
	Type     RouteType
	Prefix   netip.Prefix
	TOS      uint8
	Metric   uint32 // lower wins
	Scope    uint8
	Source   netip.Addr // preferred source; zero: chosen by the interface
	MTU      int        // 0: the interface's
	AdvMSS   int        // what TCP announces to peers: 0, by the MTU
	Protocol uint8      // who made it: unix.RTPROT_KERNEL …
	Hops     []NextHop  // none for blackhole and the like
}

// NextHop is one next hop of a route.
type NextHop struct {
	Interface int
	Gateway   netip.Addr // zero: the destination itself is on the link
	Weight    int        // 1 and up
	Dead      bool       // the kernel does not use it now
	OnLink    bool       // the gateway is on the link though no subnet says so
	// Unsupported: this stack cannot send by it: an encapsulation, or an IPv6 gateway.
	Unsupported bool
}
