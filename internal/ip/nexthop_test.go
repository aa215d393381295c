package ip_test

import (
	"net/netip"
	"testing"

	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/ip/iptest"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Routes to more neighbours than are kept as next hops: those that give way make their routes stale, and no others; one in use stays.
func TestNextHopsAreBounded(t *testing.T) {
	w := newWorld(t)
	f := iptest.Facts()
	f.Routes[2].Prefix = netip.MustParsePrefix("10.0.0.0/8")
	w.LocalHost.Set(f)
	w.KnowPeer()
	find := func(r *ip.Route, to wire.Addr) {
		w.Zero(w.IP.FindRoute(r, &ip.Query{Target: to, Protocol: wire.ProtocolUDP, TTL: 64}))
	}
	var used ip.Route
	find(&used, peer)
	w.Equal(ip.RouteOverLink, used.Kind)
	p, err := w.Pool.Alloc(used.Header.Len() + 8)
	w.NoError(err)
	p, err = w.Pool.Transmit(p)
	w.NoError(err)
	w.IP.SendFrame(w.Now, &used, p, 0)
	w.Len(w.Out(), 1)

	routes := make([]ip.Route, 2*ip.NextHopLimit)
	for i := range routes {
		generation := *w.IP.RouteGeneration()
		find(&routes[i], wire.Addr{10, 1, byte(i >> 8), byte(i)})
		w.Equal(ip.RouteAwaitsNeighbour, routes[i].Kind)
		w.True(w.IP.IsCurrent(&routes[i]))
		w.Equal(i < ip.NextHopLimit-2, generation == *w.IP.RouteGeneration(), "%d: moves when one gives way", i)
	}
	current := 0
	for i := range routes {
		if w.IP.IsCurrent(&routes[i]) {
			current++
		}
	}
	w.Equal(ip.NextHopLimit-2, current, "with the one in use, and the place of routes without a next hop")
	w.True(w.IP.IsCurrent(&used))
}
