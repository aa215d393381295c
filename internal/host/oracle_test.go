package host

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestRoutesAsTheKernelHasThem asks both about random tables.
func TestRoutesAsTheKernelHasThem(t *testing.T) {
	newSpace(t) // or skip
	all := 0
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			found, refused := compareRoutes(t, rand.New(rand.NewPCG(seed, 12)), seed%2 == 1)
			require.Greater(t, found, 1000)
			all += refused
		})
	}
	require.Greater(t, all, 100, "too few were refused to mean anything")
}

// compareRoutes compares answers about a random main table and, if asked for, a table default.
func compareRoutes(t *testing.T, r *rand.Rand, withDefault bool) (found, refused int) {
	a, b := newSpace(t), newSpace(t)
	for i := range 3 {
		a.pair(fmt.Sprintf("v%d", i), b, fmt.Sprintf("p%d", i))
		a.address(fmt.Sprintf("v%d", i), fmt.Sprintf("10.%d.0.1/16", i))
		a.address(fmt.Sprintf("v%d", i), fmt.Sprintf("10.%d.0.2/16", i))
		a.address(fmt.Sprintf("v%d", i), fmt.Sprintf("10.%d.200.1/24", i+10))
	}
	hop := func() (int, net.IP) {
		i := r.IntN(3)
		net := fmt.Sprintf("10.%d.0.%d", i, 3+r.IntN(200))
		if r.IntN(3) == 0 {
			net = fmt.Sprintf("10.%d.200.%d", i+10, 3+r.IntN(200))
		}
		return a.index(fmt.Sprintf("v%d", i)), stdIP(net)
	}
	target := func() string { return fmt.Sprintf("%d.%d.%d.%d", 20+r.IntN(3), r.IntN(2), r.IntN(2), r.IntN(256)) }
	made := 0
	for range 400 {
		route := &netlink.Route{Dst: ipnet(fmt.Sprintf("%s/%d", target(), []int{0, 8, 16, 23, 24, 30, 32}[r.IntN(7)])), Priority: r.IntN(3)}
		switch r.IntN(8) {
		case 0:
			route.Type = []int{unix.RTN_BLACKHOLE, unix.RTN_UNREACHABLE, unix.RTN_PROHIBIT, unix.RTN_THROW}[r.IntN(4)]
		case 1:
			for range 2 + r.IntN(2) {
				index, gw := hop()
				route.MultiPath = append(route.MultiPath, &netlink.NexthopInfo{LinkIndex: index, Gw: gw, Hops: r.IntN(3)})
			}
		case 2:
			route.LinkIndex, _ = hop()
			route.Scope = netlink.SCOPE_LINK
		default:
			route.LinkIndex, route.Gw = hop()
			if r.IntN(3) == 0 {
				route.Src = stdIP(fmt.Sprintf("10.%d.0.%d", r.IntN(3), 1+r.IntN(2)))
			}
			if r.IntN(3) == 0 {
				route.MTU = 600 + r.IntN(1500)
			}
			route.Tos = []int{0, 0, 0, 0x10}[r.IntN(4)]
		}
		if withDefault && r.IntN(6) == 0 {
			route.Table = unix.RT_TABLE_DEFAULT
		}
		if err := a.RouteAppend(route); err == nil {
			made++
		} else {
			require.ErrorIs(t, err, unix.EEXIST, "%v", route)
		}
	}
	require.Greater(t, made, 200)
	h := a.host(Config{})
	s := h.Snapshot()

	for range 3000 {
		to := target()
		switch r.IntN(10) {
		case 0:
			to = fmt.Sprintf("10.%d.%d.%d", r.IntN(14), r.IntN(2)*200, r.IntN(256))
		case 1:
			to = fmt.Sprintf("%d.1.2.3", 60+r.IntN(3))
		case 2:
			to = []string{"239.1.2.3", "224.0.0.5", "255.255.255.255", "127.0.0.9", "10.1.255.255"}[r.IntN(5)]
		}
		q := Query{Target: ip(to), FlowHash: r.Uint32()}
		o := &netlink.RouteGetOptions{}
		if r.IntN(3) == 0 {
			name := fmt.Sprintf("v%d", r.IntN(3))
			q.Interface, o.OifIndex = a.index(name), a.index(name)
		}
		if r.IntN(4) == 0 {
			q.Source = ip(fmt.Sprintf("10.%d.0.%d", r.IntN(3), 1+r.IntN(2)))
			o.SrcAddr = q.Source.AsSlice()
		}
		w, err := s.Route(q)
		if errors.Is(err, unix.EOPNOTSUPP) {
			require.ErrorContains(t, err, "route.tables")
			continue
		}
		list, kerr := a.RouteGetWithOptions(stdIP(to), o)
		what := fmt.Sprintf("%+v: ours %+v %v, the kernel's %v %v", q, w, err, list, kerr)
		if kerr != nil {
			require.Error(t, err, what)
			require.ErrorIs(t, err, kerr, what)
			refused++
			continue
		}
		require.NoError(t, err, what)
		found++
		k := list[0]
		require.Equal(t, k.Type, int(w.Type), what)
		if several(s, q) {
			continue // any of them is right; TestMultipathByWeight looks at which
		}
		require.Equal(t, k.LinkIndex, w.Interface, what)
		gw := netip.Addr{}
		if k.Gw != nil {
			gw = addrOf(k.Gw)
		}
		if w.Type == Unicast || w.Type == Local { // the kernel shows the gateway of a group's route, and does not use it
			require.Equal(t, gw, w.Gateway, what)
		}
		if k.MTU != 0 {
			require.Equal(t, min(k.MTU, 1500), w.MTU, what)
		}
		if k.Src == nil { // the kernel does not repeat a source that was given
			require.Equal(t, q.Source, w.Source, what)
		} else {
			require.Equal(t, addrOf(k.Src), w.Source, what)
		}
	}
	return found, refused
}

// several reports whether the answer is one of several ways. Which of them the source prefers is not the same in all kernels: 6.1 does not
// look at it, 6.18 looks at what it remembers of each way, which begins empty.
func several(s *Snapshot, q Query) bool {
	q.Source = netip.Addr{}
	ways := map[RouteResult]bool{}
	for n := range uint32(64) {
		q.FlowHash = n << 26
		w, _ := s.Route(q)
		ways[w] = true
	}
	return len(ways) > 1
}
