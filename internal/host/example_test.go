package host_test

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/host"
)

// A simulated world or a test writes the facts itself; Open reads them from the kernel.
func Example() {
	s := host.NewSnapshot(host.Facts{
		Links: []host.Link{{Index: 2, Name: "eth0", Type: unix.ARPHRD_ETHER, MTU: 1500, Flags: unix.IFF_UP, Netns: -1}},
		Addresses: []host.Address{{Interface: 2, Local: netip.MustParseAddr("10.0.0.1"),
			Prefix: netip.MustParsePrefix("10.0.0.0/24")}},
		Routes: []host.Route{{Table: unix.RT_TABLE_MAIN, Type: host.Unicast, Prefix: netip.MustParsePrefix("0.0.0.0/0"),
			Hops: []host.NextHop{{Interface: 2, Gateway: netip.MustParseAddr("10.0.0.254"), Weight: 1}}}},
	}, 1)
	to := netip.MustParseAddr("192.0.2.7")
	way, err := s.Route(host.Query{Target: to})
	fmt.Println(way.Interface, way.Gateway, way.Source, way.MTU, err)
	_, known := s.Neighbour(way.NextHop(to))
	fmt.Println(known, s.Path(2).Code)
	// Output:
	// 2 10.0.0.254 10.0.0.1 1500 <nil>
	// false link.plain
}
