package host

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestRoute(t *testing.T) {
	f := twoLinks()
	eth0 := func(gateway string) []NextHop { return []NextHop{{Interface: 2, Gateway: ip(gateway), Weight: 1}} }
	main := func(r Route) { r.Table = unix.RT_TABLE_MAIN; f.Routes = append(f.Routes, r) }
	main(Route{Type: Unicast, Prefix: prefix("172.16.0.0/12"), Hops: eth0("10.0.0.7"), MTU: 1300})
	main(Route{Type: Unicast, Prefix: prefix("172.16.1.0/24"), Hops: []NextHop{{Interface: 3, Gateway: ip("10.0.1.7"), Weight: 1}}, MTU: 20000})
	main(Route{Type: Blackhole, Prefix: prefix("172.16.2.0/24")})
	main(Route{Type: Unreachable, Prefix: prefix("172.16.3.0/24")})
	main(Route{Type: Prohibit, Prefix: prefix("172.16.4.0/24")})
	main(Route{Type: Unicast, Prefix: prefix("172.16.6.0/24"), Hops: []NextHop{{Interface: 3, Gateway: ip("10.0.1.7"), Weight: 1, Dead: true}}})
	main(Route{Type: Unicast, Prefix: prefix("172.16.7.0/24"), Metric: 20, Hops: eth0("10.0.0.20")})
	main(Route{Type: Unicast, Prefix: prefix("172.16.7.0/24"), Metric: 10, Hops: eth0("10.0.0.10")})
	main(Route{Type: Unicast, Prefix: prefix("172.16.7.0/24"), Metric: 10, Hops: eth0("10.0.0.11")})
	main(Route{Type: Unicast, Prefix: prefix("172.16.7.0/24"), Metric: 99, TOS: 0x10, Hops: eth0("10.0.0.99")})
	main(Route{Type: Unicast, Prefix: prefix("172.16.8.0/24"), Hops: []NextHop{{Interface: 2, Weight: 1, Unsupported: true}}})
	main(Route{Type: Unicast, Prefix: prefix("172.16.9.0/24"), Hops: []NextHop{{Interface: 77, Weight: 1}}})
	main(Route{Type: Unicast, Prefix: prefix("172.16.10.0/24"), Source: ip("10.0.1.1"), Hops: eth0("10.0.0.7")})
	main(Route{Type: Unicast, Prefix: prefix("192.0.2.1/32"), Scope: unix.RT_SCOPE_LINK, Hops: []NextHop{{Interface: 2, Weight: 1, OnLink: true}}})
	f.Routes = append(f.Routes, Route{Table: 100, Type: Unicast, Prefix: prefix("198.51.100.0/24"), Hops: eth0("10.0.0.100")})
	f.Links = append(f.Links, Link{Index: 4, Name: "down", Type: unix.ARPHRD_ETHER, MTU: 1500})
	s := NewSnapshot(f, 1)

	way := func(typ RouteType, index int, gw, source string, mtu int) RouteResult {
		w := RouteResult{Type: typ, Interface: index, Source: ip(source), MTU: mtu}
		if gw != "" {
			w.Gateway = ip(gw)
		}
		return w
	}
	for _, c := range []struct {
		name string
		q    Query
		want RouteResult
		code string
		err  error
	}{
		{"on the link", Query{Target: ip("10.0.0.9")}, way(Unicast, 2, "", "10.0.0.1", 1500), "", nil},
		{"the other link", Query{Target: ip("10.0.1.9")}, way(Unicast, 3, "", "10.0.1.1", 9000), "", nil},
		{"default, lower metric", Query{Target: ip("8.8.8.8")}, way(Unicast, 2, "10.0.0.254", "10.0.0.1", 1500), "", nil},
		{"default through an interface", Query{Target: ip("8.8.8.8"), Interface: 3}, way(Unicast, 3, "10.0.1.254", "10.0.1.1", 9000), "", nil},
		{"source given", Query{Target: ip("8.8.8.8"), Source: ip("10.0.1.1")}, way(Unicast, 2, "10.0.0.254", "10.0.1.1", 1500), "", nil},
		{"MTU of the route", Query{Target: ip("172.17.0.1")}, way(Unicast, 2, "10.0.0.7", "10.0.0.1", 1300), "", nil},
		{"longer prefix, MTU of the link", Query{Target: ip("172.16.1.1")}, way(Unicast, 3, "10.0.1.7", "10.0.1.1", 9000), "", nil},
		{"dead way: the shorter prefix", Query{Target: ip("172.16.6.1")}, way(Unicast, 2, "10.0.0.7", "10.0.0.1", 1300), "", nil},
		{"unknown interface: the shorter prefix", Query{Target: ip("172.16.9.1")}, way(Unicast, 2, "10.0.0.7", "10.0.0.1", 1300), "", nil},
		{"lowest metric, first of equals", Query{Target: ip("172.16.7.1")}, way(Unicast, 2, "10.0.0.10", "10.0.0.1", 1500), "", nil},
		{"TOS", Query{Target: ip("172.16.7.1"), TOS: 0x10}, way(Unicast, 2, "10.0.0.99", "10.0.0.1", 1500), "", nil},
		{"preferred source", Query{Target: ip("172.16.10.1")}, way(Unicast, 2, "10.0.0.7", "10.0.1.1", 1500), "", nil},
		{"on link", Query{Target: ip("192.0.2.1")}, way(Unicast, 2, "", "10.0.0.1", 1500), "", nil},
		{"loopback source to another host", Query{Target: ip("10.0.0.9"), Source: ip("127.0.0.1")}, RouteResult{}, "route.source", unix.EINVAL},
		{"local", Query{Target: ip("10.0.1.1")}, way(Local, 1, "", "10.0.1.1", 65535), "", nil},
		{"loopback", Query{Target: ip("127.9.9.9")}, way(Local, 1, "", "127.0.0.1", 65535), "", nil},
		{"source of a local route", Query{Target: ip("127.9.9.9"), Source: ip("127.0.0.77")}, way(Local, 1, "", "127.0.0.77", 65535), "", nil},
		{"group by source of a local route", Query{Target: ip("239.1.1.1"), Source: ip("127.0.0.77")}, way(Multicast, 1, "", "127.0.0.77", 65535), "", nil},
		{"subnet broadcast", Query{Target: ip("10.0.0.255")}, way(Broadcast, 2, "", "10.0.0.1", 1500), "", nil},
		{"limited broadcast by route", Query{Target: ip("255.255.255.255")}, way(Broadcast, 2, "", "10.0.0.1", 1500), "", nil},
		{"limited broadcast by interface", Query{Target: ip("255.255.255.255"), Interface: 3}, way(Broadcast, 3, "", "10.0.1.1", 9000), "", nil},
		{"limited broadcast by source", Query{Target: ip("255.255.255.255"), Source: ip("10.0.1.1")}, way(Broadcast, 3, "", "10.0.1.1", 9000), "", nil},
		{"group by default route", Query{Target: ip("239.1.1.1")}, way(Multicast, 2, "", "10.0.0.1", 1500), "", nil},
		{"group by interface", Query{Target: ip("239.1.1.1"), Interface: 3}, way(Multicast, 3, "", "10.0.1.1", 9000), "", nil},
		{"group by source", Query{Target: ip("239.1.1.1"), Source: ip("10.0.1.1")}, way(Multicast, 3, "", "10.0.1.1", 9000), "", nil},
		{"link-local group", Query{Target: ip("224.0.0.22"), Interface: 3}, way(Multicast, 3, "", "10.0.1.1", 9000), "", nil},
		{"bound: routes through others do not count", Query{Target: ip("10.0.0.9"), Interface: 3}, way(Unicast, 3, "10.0.1.254", "10.0.1.1", 9000), "", nil},

		{"blackhole", Query{Target: ip("172.16.2.1")}, RouteResult{}, "route.blackhole", unix.EINVAL},
		{"unreachable", Query{Target: ip("172.16.3.1")}, RouteResult{}, "route.unreachable", unix.EHOSTUNREACH},
		{"prohibit", Query{Target: ip("172.16.4.1")}, RouteResult{}, "route.prohibit", unix.EACCES},
		{"foreign", Query{Target: ip("172.16.8.1")}, RouteResult{}, "route.foreign", unix.EOPNOTSUPP},
		{"no interface", Query{Target: ip("8.8.8.8"), Interface: 78}, RouteResult{}, "route.no_interface", unix.ENODEV},
		{"interface down", Query{Target: ip("8.8.8.8"), Interface: 4}, RouteResult{}, "route.interface_down", unix.ENETUNREACH},
		{"source not ours", Query{Target: ip("8.8.8.8"), Source: ip("10.0.0.2")}, RouteResult{}, "route.source", unix.EADDRNOTAVAIL},
		{"source multicast", Query{Target: ip("8.8.8.8"), Source: ip("239.0.0.2")}, RouteResult{}, "route.source", unix.EINVAL},
		{"IPv6", Query{Target: ip("::1")}, RouteResult{}, "route.target", unix.EAFNOSUPPORT},
		{"nothing", Query{}, RouteResult{}, "route.target", unix.EAFNOSUPPORT},
		{"0.0.0.0", Query{Target: ip("0.0.0.0")}, RouteResult{}, "route.target", unix.EAFNOSUPPORT},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := s.Route(c.q)
			if c.err != nil {
				var route *RouteError
				require.ErrorAs(t, err, &route)
				require.ErrorIs(t, err, c.err)
				require.Equal(t, c.code, route.Code)
				require.Equal(t, c.q.Target, route.Target)
				return
			}
			require.NoError(t, err)
			w.Scope = 0
			require.Equal(t, c.want, w)
		})
	}

	f.Routes = nil
	_, err := NewSnapshot(f, 1).Route(Query{Target: ip("8.8.8.8")})
	require.ErrorIs(t, err, unix.ENETUNREACH)
	w, err := NewSnapshot(f, 1).Route(Query{Target: ip("8.8.8.8"), Interface: 3})
	require.NoError(t, err, "bound to an interface, everything is on its link")
	require.Equal(t, ip("10.0.1.1"), w.Source)
	f.Rules = 1
	_, err = NewSnapshot(f, 1).Route(Query{Target: ip("8.8.8.8")})
	require.ErrorIs(t, err, unix.EOPNOTSUPP)
	require.ErrorContains(t, err, "route.rules")
}

func TestNextHop(t *testing.T) {
	w := RouteResult{Interface: 2, Gateway: ip("10.0.0.254")}
	require.Equal(t, Target{2, ip("10.0.0.254")}, w.NextHop(ip("8.8.8.8")))
	w = RouteResult{Interface: 2}
	require.Equal(t, Target{2, ip("10.0.0.7")}, w.NextHop(ip("10.0.0.7")))
}

func TestMultipathByWeight(t *testing.T) {
	f := twoLinks()
	f.Routes = []Route{{Table: unix.RT_TABLE_MAIN, Type: Unicast, Prefix: prefix("0.0.0.0/0"), Hops: []NextHop{
		{Interface: 2, Gateway: ip("10.0.0.250"), Weight: 1},
		{Interface: 2, Gateway: ip("10.0.0.251"), Weight: 2},
		{Interface: 3, Gateway: ip("10.0.1.252"), Weight: 5},
	}}}
	share := func(q Query) map[string]int {
		s, got := NewSnapshot(f, 1), map[string]int{}
		for n := range 8000 {
			q.FlowHash = uint32(n) * (1 << 32 / 8000)
			w, err := s.Route(q)
			require.NoError(t, err)
			again, err := s.Route(q)
			require.NoError(t, err)
			require.Equal(t, w, again, "a flow keeps its way")
			got[w.Gateway.String()]++
		}
		return got
	}
	q := Query{Target: ip("8.8.8.8")}
	near := func(want, got map[string]int) {
		require.Len(t, got, len(want))
		for k, n := range want {
			require.InDelta(t, n, got[k], 3, k)
		}
	}
	near(map[string]int{"10.0.0.250": 1000, "10.0.0.251": 2000, "10.0.1.252": 5000}, share(q))
	q.Interface = 2
	near(map[string]int{"10.0.0.250": 2667, "10.0.0.251": 5333}, share(q))
	q.Interface = 0
	q.Source = ip("10.0.1.1")
	near(map[string]int{"10.0.1.252": 8000}, share(q))
	q.Source = ip("10.0.0.1")
	near(map[string]int{"10.0.0.250": 2667, "10.0.0.251": 5333}, share(q))
	q = Query{Target: ip("8.8.8.8")}
	f.Links[1].Flags = 0
	near(map[string]int{"10.0.1.252": 8000}, share(q))
	f.Links[1].Flags = up
	f.Routes[0].Hops[2].Dead = true
	near(map[string]int{"10.0.0.250": 2667, "10.0.0.251": 5333}, share(q))
}

func TestSourceSelection(t *testing.T) {
	f := twoLinks()
	f.Addresses = append(f.Addresses,
		Address{Interface: 2, Local: ip("10.9.0.1"), Prefix: prefix("10.9.0.0/24")},
		Address{Interface: 2, Local: ip("10.9.0.2"), Prefix: prefix("10.9.0.0/24"), Secondary: true},
		Address{Interface: 3, Local: ip("169.254.0.1"), Prefix: prefix("169.254.0.0/16"), Scope: unix.RT_SCOPE_LINK})
	s := newTopology(&f)
	require.Equal(t, ip("10.9.0.1"), s.selectSource(2, ip("10.9.0.77"), unix.RT_SCOPE_UNIVERSE), "the gateway's subnet")
	require.Equal(t, ip("10.0.0.1"), s.selectSource(2, ip("10.8.0.77"), unix.RT_SCOPE_UNIVERSE), "else the first")
	require.Equal(t, ip("10.0.1.1"), s.selectSource(3, ip("169.254.0.9"), unix.RT_SCOPE_UNIVERSE), "the scope is too narrow")
	require.Equal(t, ip("169.254.0.1"), s.selectSource(3, ip("169.254.0.9"), unix.RT_SCOPE_LINK))
	require.Equal(t, ip("10.0.0.1"), s.selectSource(99, ip("1.1.1.1"), unix.RT_SCOPE_UNIVERSE), "another interface's")
	f.Addresses = nil
	require.False(t, newTopology(&f).selectSource(2, ip("1.1.1.1"), unix.RT_SCOPE_UNIVERSE).IsValid())
}

func TestSnapshotQuestions(t *testing.T) {
	s := NewSnapshot(twoLinks(), 7)
	require.EqualValues(t, 7, s.Generation())
	l, ok := s.LinkByName("eth1")
	require.True(t, ok)
	require.Equal(t, 3, l.Index)
	_, ok = s.LinkByName("eth9")
	require.False(t, ok)
	_, ok = s.Link(9)
	require.False(t, ok)
	index, ok := s.Local(ip("10.0.1.1"))
	require.True(t, ok)
	require.Equal(t, 3, index)
	_, ok = s.Local(ip("10.0.1.2"))
	require.False(t, ok)
	require.True(t, s.IsBroadcast(2, ip("10.0.0.255")))
	require.False(t, s.IsBroadcast(3, ip("10.0.0.255")))
	require.True(t, s.IsBroadcast(3, ip("255.255.255.255")))
	require.Len(t, s.Links(), 3)
	require.Len(t, s.Addresses(), 3)
}

func TestLookupAllocatesNothing(t *testing.T) {
	s := NewSnapshot(twoLinks(), 1)
	q := Query{Target: ip("8.8.8.8")}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		w, err := s.Route(q)
		if err != nil || w.Interface != 2 {
			panic("no way")
		}
		s.Neighbour(w.NextHop(q.Target))
	}))
}

func BenchmarkRoute(b *testing.B) {
	s := NewSnapshot(twoLinks(), 1)
	for b.Loop() {
		if _, err := s.Route(Query{Target: ip("8.8.8.8")}); err != nil {
			b.Fatal(err)
		}
	}
}

// Local and main are one table: the longest prefix of both. When main forbids, what the table default is asked depends on the kernel.
func TestRouteByTables(t *testing.T) {
	f := twoLinks()
	eth0 := func(gateway string) []NextHop { return []NextHop{{Interface: 2, Gateway: ip(gateway), Weight: 1}} }
	add := func(table uint32, r Route) { r.Table = table; f.Routes = append(f.Routes, r) }
	add(unix.RT_TABLE_MAIN, Route{Type: Unicast, Prefix: prefix("127.5.0.0/16"), Hops: eth0("10.0.0.5")})
	forbidding := map[RouteType]error{Blackhole: unix.EINVAL, Unreachable: unix.EHOSTUNREACH, Prohibit: unix.EACCES, Throw: unix.ENETUNREACH}
	for typ := range forbidding {
		add(unix.RT_TABLE_MAIN, Route{Type: typ, Prefix: prefix(fmt.Sprintf("172.16.%d.0/24", typ))})
	}
	of := func(typ RouteType) Query { return Query{Target: ip(fmt.Sprintf("172.16.%d.1", typ))} }
	s := NewSnapshot(f, 1)
	for typ, errno := range forbidding {
		_, err := s.Route(of(typ))
		require.ErrorIs(t, err, errno)
		w, err := s.Route(Query{Target: of(typ).Target, Interface: 3})
		require.NoError(t, err, "bound to an interface, everything is on its link")
		require.Equal(t, 3, w.Interface)
	}
	w, err := s.Route(Query{Target: ip("127.5.0.1")})
	require.NoError(t, err)
	require.Equal(t, ip("10.0.0.5"), w.Gateway)

	add(unix.RT_TABLE_DEFAULT, Route{Type: Unicast, Prefix: prefix("172.16.0.0/16"), Hops: eth0("10.0.0.55")})
	s = NewSnapshot(f, 1)
	for typ := range forbidding {
		w, err := s.Route(of(typ))
		if typ == Throw {
			require.NoError(t, err)
			require.Equal(t, ip("10.0.0.55"), w.Gateway)
			continue
		}
		require.ErrorContains(t, err, "route.tables")
		require.ErrorIs(t, err, unix.EOPNOTSUPP)
	}
}
