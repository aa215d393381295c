package host

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// TestOwnNamespace needs no privileges.
func TestOwnNamespace(t *testing.T) {
	h, err := Open(Config{})
	require.NoError(t, err)
	l, ok := h.Snapshot().LinkByName("lo")
	require.True(t, ok)
	require.True(t, l.Loopback())
	require.Equal(t, "link.loopback", h.Snapshot().Path(l.Index).Code)
	require.NoError(t, h.Close())
	require.NoError(t, h.Close(), "again")
	_, ok = h.Snapshot().LinkByName("lo")
	require.True(t, ok, "the last snapshot stays")
}

func TestRealChanges(t *testing.T) {
	a, b := newSpace(t), newSpace(t)
	a.pair("v0", b, "v1")
	h := a.host(Config{})
	index := a.index("v0")
	route := func(s *Snapshot, to string) (RouteResult, error) { return s.Route(Query{Target: ip(to)}) }
	goes := func(to, gateway, source string, mtu int) func(s *Snapshot) bool {
		return func(s *Snapshot) bool {
			w, err := route(s, to)
			gw := ""
			if w.Gateway.IsValid() {
				gw = w.Gateway.String()
			}
			return err == nil && w.Interface == index && gw == gateway && w.Source == ip(source) && w.MTU == mtu
		}
	}
	nowhere := func(to string) func(s *Snapshot) bool {
		return func(s *Snapshot) bool {
			_, err := route(s, to)
			var e *RouteError
			return errors.As(err, &e) && e.Errno == unix.ENETUNREACH
		}
	}
	l, ok := h.Snapshot().Link(index)
	require.True(t, ok)
	require.Equal(t, KindVeth, l.Kind)
	require.Equal(t, macOf(a.link("v0")), l.MAC)
	require.GreaterOrEqual(t, l.Netns, 0, "the peer is in another namespace")
	require.True(t, nowhere("10.1.0.2")(h.Snapshot()))

	moves(t, h, "the address is there", func() { a.address("v0", "10.1.0.1/24") }, goes("10.1.0.2", "", "10.1.0.1", 1500))
	until(t, h, "the address is known as ours", func(s *Snapshot) bool {
		where, ok := s.Local(ip("10.1.0.1"))
		return ok && where == index && s.IsBroadcast(index, ip("10.1.0.255"))
	})

	first := &netlink.Route{Dst: ipnet("0.0.0.0/0"), Gw: stdIP("10.1.0.2")}
	moves(t, h, "the default route is there", func() { require.NoError(t, a.RouteAdd(first)) },
		goes("8.8.8.8", "10.1.0.2", "10.1.0.1", 1500))
	moves(t, h, "the default route is another", func() {
		require.NoError(t, a.RouteReplace(&netlink.Route{Dst: ipnet("0.0.0.0/0"), Gw: stdIP("10.1.0.3")}))
	}, goes("8.8.8.8", "10.1.0.3", "10.1.0.1", 1500))
	moves(t, h, "the default route has an MSS to announce", func() {
		require.NoError(t, a.RouteReplace(&netlink.Route{Dst: ipnet("0.0.0.0/0"), Gw: stdIP("10.1.0.3"), AdvMSS: 700}))
	}, func(s *Snapshot) bool {
		w, err := route(s, "8.8.8.8")
		return err == nil && w.AdvMSS == 700 && w.MTU == 1500
	})
	moves(t, h, "the MTU is less", func() { require.NoError(t, a.LinkSetMTU(a.link("v0"), 1400)) },
		goes("8.8.8.8", "10.1.0.3", "10.1.0.1", 1400))
	moves(t, h, "a second subnet is there", func() { a.address("v0", "10.2.0.1/24") }, goes("10.2.0.9", "", "10.2.0.1", 1400))

	// Routes that preferred a source vanish with it, and no message says so.
	moves(t, h, "a route prefers the second address", func() {
		require.NoError(t, a.RouteAdd(&netlink.Route{LinkIndex: index, Dst: ipnet("10.77.0.0/16"), Src: stdIP("10.2.0.1"), Scope: netlink.SCOPE_LINK}))
	}, goes("10.77.0.1", "", "10.2.0.1", 1400))
	moves(t, h, "the second subnet is gone", func() { a.unaddress("v0", "10.2.0.1/24") }, goes("10.77.0.1", "10.1.0.3", "10.1.0.1", 1400))

	moves(t, h, "there is no carrier", func() { b.down("v1") }, func(s *Snapshot) bool { l, _ := s.Link(index); return l.Up() && !l.Carrier() })
	moves(t, h, "there is carrier", func() { b.up("v1") }, func(s *Snapshot) bool { l, _ := s.Link(index); return l.Carrier() })

	// A link that goes down takes its routes along, and no message says so.
	moves(t, h, "the link is down", func() { a.down("v0") }, func(s *Snapshot) bool { return nowhere("8.8.8.8")(s) && nowhere("10.1.0.2")(s) })
	moves(t, h, "the link is up", func() { a.up("v0") }, goes("10.1.0.2", "", "10.1.0.1", 1400))
	require.True(t, nowhere("8.8.8.8")(h.Snapshot()), "the default route does not come back by itself")

	// Nor is there a message about routes when the link has no address.
	a.pair("bare", b, "bare1")
	moves(t, h, "a route leaves through a link without address", func() {
		require.NoError(t, a.RouteAdd(&netlink.Route{LinkIndex: a.index("bare"), Dst: ipnet("10.88.0.0/16"), Scope: netlink.SCOPE_LINK}))
	}, func(s *Snapshot) bool { w, err := route(s, "10.88.0.1"); return err == nil && w.Interface != index })
	moves(t, h, "its link is down", func() { a.down("bare") }, nowhere("10.88.0.1"))
	moves(t, h, "its link is up, and it is gone", func() { a.up("bare") }, func(s *Snapshot) bool {
		l, _ := s.LinkByName("bare")
		return l.Up() && nowhere("10.88.0.1")(s)
	})

	moves(t, h, "a rule is there", func() {
		r := netlink.NewRule()
		r.Priority, r.Table = 1000, 100
		require.NoError(t, a.RuleAdd(r))
	}, func(s *Snapshot) bool { _, err := route(s, "10.1.0.2"); return err != nil })
	_, err := route(h.Snapshot(), "10.1.0.2")
	require.ErrorContains(t, err, "route.rules")
	moves(t, h, "the rule is gone", func() {
		r := netlink.NewRule()
		r.Priority, r.Table = 1000, 100
		require.NoError(t, a.RuleDel(r))
	}, goes("10.1.0.2", "", "10.1.0.1", 1400))

	moves(t, h, "the address is gone", func() { a.unaddress("v0", "10.1.0.1/24") }, nowhere("10.1.0.2"))
	moves(t, h, "the link is gone", func() { require.NoError(t, a.LinkDel(a.link("v0"))) },
		func(s *Snapshot) bool { _, ok := s.Link(index); return !ok })
	require.Equal(t, "link.none", h.Snapshot().Path(index).Code)
	require.Zero(t, h.Stats().Overruns)
	require.Zero(t, h.Stats().Failures)
}

func TestRealNeighbours(t *testing.T) {
	a, b := newSpace(t), newSpace(t)
	a.pair("v0", b, "v1")
	a.address("v0", "10.1.0.1/24")
	b.address("v1", "10.1.0.2/24")
	a.sysctl("ipv4/neigh/v0/retrans_time_ms", "50")
	b.sysctl("ipv4/conf/v1/arp_notify", "1")
	h := a.host(Config{})
	peer, nobody := Target{a.index("v0"), ip("10.1.0.2")}, Target{a.index("v0"), ip("10.1.0.99")}

	var sent, given []string
	w, err := NewWaiting(WaitingLimits{Packets: 8, PerTarget: 4, Time: 3 * time.Second},
		func(p string, _ Target, why GiveUp) { given = append(given, p+" "+why.String()) })
	require.NoError(t, err)
	send := func(p string, n Neighbour) bool {
		sent = append(sent, p+" "+n.MAC.String())
		return true
	}
	ask := func(p string, to Target) {
		s := h.Snapshot()
		n, ok := s.Neighbour(to)
		require.False(t, ok && n.Usable())
		w.Add(clock.Now(), s, to, p)
		asked, err := h.Resolve(to)
		require.NoError(t, err)
		require.True(t, asked)
	}
	ask("one", peer)
	w.Add(clock.Now(), h.Snapshot(), peer, "two")
	ask("three", nobody)
	until(t, h, "one is there, the other is not", func(s *Snapshot) bool { w.Check(s, send); return w.Len() == 0 })
	mac := macOf(b.link("v1")).String()
	require.Equal(t, []string{"one " + mac, "two " + mac}, sent)
	require.Equal(t, []string{"three neighbour.failed"}, given)

	// It fails again, and that is news again.
	time.Sleep(askEvery)
	ask("four", nobody)
	until(t, h, "it failed again", func(s *Snapshot) bool { w.Check(s, send); return w.Len() == 0 })
	require.Equal(t, "four neighbour.failed", given[1])

	// The peer gets another MAC address and says so.
	other := net.HardwareAddr{2, 0, 0, 0, 7, 7}
	moves(t, h, "the MAC address is another", func() { require.NoError(t, b.LinkSetHardwareAddr(b.link("v1"), other)) },
		func(s *Snapshot) bool {
			n, _ := s.Neighbour(peer)
			return n.Usable() && n.MAC.String() == other.String()
		})

	moves(t, h, "the entry is gone", func() {
		require.NoError(t, a.NeighDel(&netlink.Neigh{LinkIndex: peer.Interface, IP: stdIP("10.1.0.2")}))
	}, func(s *Snapshot) bool { n, ok := s.Neighbour(peer); return !ok || !n.Usable() })
	require.Zero(t, h.Stats().RequestFailures)
}

// TestRealProbeByDatagram: who may not ask by netlink gets the same by sending.
func TestRealProbeByDatagram(t *testing.T) {
	a, b := newSpace(t), newSpace(t)
	a.pair("v0", b, "v1")
	a.address("v0", "10.1.0.1/24")
	b.address("v1", "10.1.0.2/24")
	var k *kernel
	a.in(func() (err error) { k, err = newKernel(1 << 20); return err })
	k.refused = true
	h, err := open(k, 0)
	require.NoError(t, err)
	defer h.Close()
	peer := Target{a.index("v0"), ip("10.1.0.2")}
	asked, err := h.Resolve(peer)
	require.NoError(t, err)
	require.True(t, asked)
	until(t, h, "it is found", func(s *Snapshot) bool { n, _ := s.Neighbour(peer); return n.Usable() })
	require.Zero(t, h.Stats().RequestFailures)
}

// TestRealHopIsKept: touched, an entry is confirmed again and again, never stale; left alone, it grows stale.
func TestRealHopIsKept(t *testing.T) {
	a, b := newSpace(t), newSpace(t)
	a.pair("v0", b, "v1")
	a.address("v0", "10.1.0.1/24")
	b.address("v1", "10.1.0.2/24")
	// The confirmation lasts half to one and a half of this. It must outlast the delay of 1 s: below, the kernel keeps an
	// entry alive by its own probes.
	a.sysctl("ipv4/neigh/v0/base_reachable_time_ms", "2100")
	a.sysctl("ipv4/neigh/v0/delay_first_probe_time", "1")
	h := a.host(Config{Refresh: 200 * time.Millisecond})
	peer := Target{a.index("v0"), ip("10.1.0.2")}
	hop, err := h.Hold(peer)
	require.NoError(t, err)
	state := func() State { n, _ := h.Snapshot().Neighbour(peer); return n.State }
	hop.Touch()
	until(t, h, "the keeper found it", func(*Snapshot) bool { return state()&unix.NUD_REACHABLE != 0 })
	changes, seen := h.Snapshot().NeighbourChanges(), map[State]int{}
	for end := time.Now().Add(7 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		hop.Touch()
		seen[state()]++
	}
	require.Zero(t, seen[unix.NUD_STALE], "states seen: %v", seen)
	require.Zero(t, seen[unix.NUD_FAILED])
	require.Equal(t, changes, h.Snapshot().NeighbourChanges(), "all with one MAC address")
	require.Zero(t, h.Stats().RequestFailures)
	until(t, h, "nobody uses it and it is stale", func(*Snapshot) bool { return state()&unix.NUD_STALE != 0 })
	hop.Release()
}

// TestRealPermanentStays: NTF_USE would take a permanent entry's permanence away.
func TestRealPermanentStays(t *testing.T) {
	a, b := newSpace(t), newSpace(t)
	a.pair("v0", b, "v1")
	a.address("v0", "10.1.0.1/24")
	peer := Target{a.index("v0"), ip("10.1.0.2")}
	require.NoError(t, a.NeighSet(&netlink.Neigh{LinkIndex: peer.Interface, IP: stdIP("10.1.0.2"), State: netlink.NUD_PERMANENT,
		HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 9}}))
	h := a.host(Config{Refresh: 20 * time.Millisecond})
	n, ok := h.Snapshot().Neighbour(peer)
	require.True(t, ok)
	require.True(t, n.Usable())
	hop, err := h.Hold(peer)
	require.NoError(t, err)
	_, err = h.Resolve(peer)
	require.NoError(t, err)
	for range 50 {
		hop.Touch()
		time.Sleep(5 * time.Millisecond)
	}
	require.Zero(t, h.Stats().Requests)
	list, err := a.NeighList(peer.Interface, netlink.FAMILY_V4)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, netlink.NUD_PERMANENT, list[0].State)
}

// TestRealOverrun: the notification socket overflows while nobody reads; all is read anew and right in the end.
func TestRealOverrun(t *testing.T) {
	a := newSpace(t)
	var k *kernel
	a.in(func() (err error) { k, err = newKernel(1); return err }) // the kernel's minimum
	slow := &slowKernel{kernel: k, gate: make(chan struct{}, 1)}
	h, err := open(slow, 0)
	require.NoError(t, err)
	defer h.Close()
	const last = 300
	for n := range last + 1 {
		a.address("lo", fmt.Sprintf("10.3.%d.%d/32", n/250, n%250+1))
	}
	close(slow.gate)
	until(t, h, "the last address is there", func(s *Snapshot) bool {
		_, ok := s.Local(ip(fmt.Sprintf("10.3.%d.%d", last/250, last%250+1)))
		return ok
	})
	require.NotZero(t, h.Stats().Overruns)
	require.Len(t, h.Snapshot().Addresses(), last+2)
}

// slowKernel does not read notifications until its gate opens.
type slowKernel struct {
	*kernel
	gate chan struct{}
}

func (s *slowKernel) next(wait bool, deadline time.Time) (batch, error) {
	select {
	case <-s.gate:
	case <-s.ended:
		return batch{}, errClosed
	}
	return s.kernel.next(wait, deadline)
}

// TestPathsOfRealLinks: kinds that this kernel lacks skip with their name and are covered by TestPathOfEachKind.
func TestPathsOfRealLinks(t *testing.T) {
	named := func(name string) netlink.LinkAttrs {
		a := netlink.NewLinkAttrs()
		a.Name = name
		return a
	}
	for _, c := range []struct {
		kind, code string
		make       func(s *space) netlink.Link
	}{
		{"bridge", "link.bridge", func(s *space) netlink.Link { return &netlink.Bridge{LinkAttrs: named("x0")} }},
		{"macvlan", "link.macvlan", func(s *space) netlink.Link {
			a := named("x0")
			a.ParentIndex = s.index("v0")
			return &netlink.Macvlan{LinkAttrs: a, Mode: netlink.MACVLAN_MODE_BRIDGE}
		}},
		{"macvlan source", "link.macvlan_source", func(s *space) netlink.Link {
			a := named("x0")
			a.ParentIndex = s.index("v0")
			return &netlink.Macvlan{LinkAttrs: a, Mode: netlink.MACVLAN_MODE_SOURCE}
		}},
		{"vxlan", "link.tunnel", func(s *space) netlink.Link { return &netlink.Vxlan{LinkAttrs: named("x0"), VxlanId: 4, Port: 4789} }},
		{"tap", "link.tap", func(s *space) netlink.Link {
			return &netlink.Tuntap{LinkAttrs: named("x0"), Mode: netlink.TUNTAP_MODE_TAP}
		}},
		{"tun", "link.tun", func(s *space) netlink.Link {
			return &netlink.Tuntap{LinkAttrs: named("x0"), Mode: netlink.TUNTAP_MODE_TUN}
		}},
		{"vlan", "link.vlan", func(s *space) netlink.Link {
			a := named("x0")
			a.ParentIndex = s.index("v0")
			return &netlink.Vlan{LinkAttrs: a, VlanId: 5}
		}},
		{"bond", "link.bond_mode", func(s *space) netlink.Link { return netlink.NewLinkBond(named("x0")) }},
		{"ipvlan", "link.ipvlan", func(s *space) netlink.Link {
			a := named("x0")
			a.ParentIndex = s.index("v0")
			return &netlink.IPVlan{LinkAttrs: a}
		}},
		{"dummy", "link.dummy", func(s *space) netlink.Link { return &netlink.Dummy{LinkAttrs: named("x0")} }},
		{"wireguard", "link.not_ethernet", func(s *space) netlink.Link { return &netlink.Wireguard{LinkAttrs: named("x0")} }},
	} {
		t.Run(c.kind, func(t *testing.T) {
			a, b := newSpace(t), newSpace(t)
			a.pair("v0", b, "v1")
			h := a.host(Config{})
			var index int
			link := c.make(a)
			if _, tuntap := link.(*netlink.Tuntap); tuntap {
				a.in(func() error { return netlink.LinkAdd(link) }) // made by ioctl: in the namespace of the caller
				index = a.index("x0")
			} else {
				index = a.add(link)
			}
			until(t, h, "it is there", func(s *Snapshot) bool { _, ok := s.Link(index); return ok })
			p := h.Snapshot().Path(index)
			require.Equal(t, c.code, p.Code, p.Text)
			if p.Offload && c.kind != "vlan" {
				require.Equal(t, macOf(a.link("x0")), p.MAC)
			}
			if c.kind == "bridge" {
				port := a.index("v0")
				require.Equal(t, "link.veth", h.Snapshot().Path(port).Code)
				moves(t, h, "v0 is a port", func() { require.NoError(t, a.LinkSetMasterByIndex(a.link("v0"), index)) },
					func(s *Snapshot) bool { return s.Path(port).Code == "link.bridge_port" })
				require.Equal(t, []int{port}, h.Snapshot().Members(index))
				moves(t, h, "v0 is on its own", func() { require.NoError(t, a.LinkSetNoMaster(a.link("v0"))) },
					func(s *Snapshot) bool { return s.Path(port).Code == "link.veth" })
			}
		})
	}
}

func TestNamespaceByPath(t *testing.T) {
	a := newSpace(t)
	a.address("lo", "10.4.0.1/32")
	h, err := Open(Config{Namespace: fmt.Sprintf("/proc/self/fd/%d", a.fd)})
	require.NoError(t, err)
	defer h.Close()
	_, ok := h.Snapshot().Local(ip("10.4.0.1"))
	require.True(t, ok)
	require.ErrorContains(t, InNamespace(0, func() error { return nil }), "descriptor 0")
}

// TestNothingIsLeft: neither goroutines nor descriptors, also when changes are under way.
func TestNothingIsLeft(t *testing.T) {
	round := func() {
		h, err := Open(Config{})
		require.NoError(t, err)
		_, err = h.Resolve(Target{1, ip("127.0.0.1")})
		require.NoError(t, err)
		require.NoError(t, h.Close())
	}
	round() // what the runtime makes once
	goroutines, open := runtime.NumGoroutine(), descriptors(t)
	for range 30 {
		round()
	}
	eventually(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= goroutines })
	require.Equal(t, open, descriptors(t))
}
