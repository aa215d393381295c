package xtreme

import (
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
)

// facts is a host with a loopback interface, two cards, a veth that is down, a tunnel and a bond of two.
func facts() host.Facts {
	const up = unix.IFF_UP | unix.IFF_LOWER_UP
	link := func(index int, name, kind string, flags uint32) host.Link {
		return host.Link{Index: index, Name: name, Kind: kind, Type: unix.ARPHRD_ETHER, MAC: wire.MAC{2, 0, 0, 0, 0, byte(index)},
			MTU: 1500, Flags: flags, Netns: -1}
	}
	lo := link(1, "lo", "", up|unix.IFF_LOOPBACK)
	lo.Type = unix.ARPHRD_LOOPBACK
	bond := link(6, "bond0", host.KindBond, up)
	bond.BondMode = host.Bond8023AD
	first, second := link(7, "m0", "", up), link(8, "m1", "", up)
	first.Master, second.Master = 6, 6
	vlan := link(9, "eth0.5", host.KindVLAN, up)
	vlan.Parent, vlan.VLAN, vlan.VLANProtocol = 2, 5, wire.TypeVLAN
	address := func(index int, a, broadcast string) host.Address {
		return host.Address{Interface: index, Local: netip.MustParseAddr(a), Broadcast: netip.MustParseAddr(broadcast),
			Prefix: netip.PrefixFrom(netip.MustParseAddr(a), 24)}
	}
	return host.Facts{
		Links: []host.Link{lo, link(2, "eth0", "", up), link(3, "eth1", "", up), link(4, "veth0", host.KindVeth, 0),
			link(5, "wg0", "wireguard", up), bond, first, second, vlan},
		Addresses: []host.Address{{Interface: 1, Local: netip.MustParseAddr("127.0.0.1")},
			address(2, "10.0.0.1", "10.0.0.255"), address(3, "10.0.1.1", "10.0.1.255"), address(4, "10.0.2.1", "10.0.2.255"),
			address(5, "10.0.3.1", "10.0.3.255"), address(6, "10.0.4.1", "10.0.4.255"), address(9, "10.0.5.1", "10.0.5.255")},
		Routes: []host.Route{{Table: unix.RT_TABLE_MAIN, Type: host.Unicast, Prefix: netip.MustParsePrefix("239.1.0.0/16"),
			Hops: []host.NextHop{{Interface: 3}}}},
	}
}

func TestWanted(t *testing.T) {
	snap := host.NewSnapshot(facts(), 1)
	addr := netip.MustParseAddr
	anywhere := addr("0.0.0.0")
	for name, c := range map[string]struct {
		interfaceNeed
		list []int
		why  []string
	}{
		"an address":            {interfaceNeed{local: addr("10.0.1.1")}, []int{3}, nil},
		"a broadcast address":   {interfaceNeed{local: addr("10.0.0.255")}, []int{2}, nil},
		"of loopback":           {interfaceNeed{local: addr("127.0.0.1")}, nil, []string{"link.loopback"}},
		"another of loopback":   {interfaceNeed{local: addr("127.9.0.1")}, nil, []string{"link.loopback"}},
		"of nobody":             {interfaceNeed{local: addr("10.9.0.1")}, nil, []string{"link.none"}},
		"of a tunnel":           {interfaceNeed{local: addr("10.0.3.1")}, nil, []string{"link.tunnel"}},
		"of an interface down":  {interfaceNeed{local: addr("10.0.2.1")}, nil, []string{"link.down"}},
		"of a bond":             {interfaceNeed{local: addr("10.0.4.1")}, []int{6}, nil},
		"of a VLAN":             {interfaceNeed{local: addr("10.0.5.1")}, []int{9}, nil},
		"not named":             {interfaceNeed{local: addr("10.0.0.1"), named: []conf.Interface{{Name: "eth1"}}}, nil, []string{"offload.not_named"}},
		"a device":              {interfaceNeed{local: anywhere, device: 2}, []int{2}, nil},
		"a device that is gone": {interfaceNeed{local: anywhere, device: 77}, nil, []string{"link.none"}},
		"a group by interface": {interfaceNeed{local: addr("239.1.1.1"),
			groups: []ring.Membership{{Group: addr("239.1.1.1"), Interface: 2}}}, []int{2}, nil},
		"a group by route":        {interfaceNeed{local: addr("239.1.1.1"), groups: []ring.Membership{{Group: addr("239.1.1.1")}}}, []int{3}, nil},
		"a group not joined":      {interfaceNeed{local: addr("239.1.1.1")}, []int{3}, nil},
		"a group without a route": {interfaceNeed{local: addr("239.2.1.1")}, nil, []string{"route.none"}},
		"a group on two": {interfaceNeed{local: addr("239.1.1.1"), groups: []ring.Membership{{Group: addr("239.1.1.1"), Interface: 3},
			{Group: addr("239.1.1.1"), Interface: 2}, {Group: addr("239.1.1.2"), Interface: 6}}}, []int{3, 2}, nil},
		"groups of a wildcard": {interfaceNeed{local: anywhere, groups: []ring.Membership{{Group: addr("239.1.1.1"), Interface: 2},
			{Group: addr("239.1.1.2"), Interface: 6}}}, []int{2, 6}, nil},
		"a wildcard": {interfaceNeed{local: anywhere}, []int{2, 3, 6, 9},
			[]string{"link.loopback", "link.down", "link.tunnel", "link.bond_member", "link.bond_member"}},
		"a wildcard over the named": {interfaceNeed{local: anywhere, named: []conf.Interface{{Name: "eth1"}, {Name: "wg0"}}}, []int{3},
			[]string{"link.tunnel"}},
		"a wildcard over a name that there is not": {interfaceNeed{local: anywhere, named: []conf.Interface{{Name: "eth1"}, {Name: "eth7"}}}, []int{3},
			[]string{"link.none"}},
	} {
		t.Run(name, func(t *testing.T) {
			list, why := c.interfaces(snap)
			require.Equal(t, c.list, list)
			var codes []string
			for _, r := range why {
				require.NotEmpty(t, r.Text)
				codes = append(codes, r.Code)
			}
			require.Equal(t, c.why, codes)
		})
	}
}

// Queues that are named with a bond are those of its members, and with a VLAN those of the device that it is on, unless that is named itself.
func TestQueuesOfADevice(t *testing.T) {
	tables := facts()
	onBond := tables.Links[len(tables.Links)-1] // as eth0.5
	onBond.Index, onBond.Name, onBond.Parent = 10, "bond0.7", 6
	tables.Links = append(tables.Links, onBond)
	snap := host.NewSnapshot(tables, 1)
	for _, c := range []struct {
		list, device string
		queues       []int // nil: all
	}{
		{"eth0:2", "eth0", []int{2}}, {"eth0:2", "eth1", nil}, {"eth0", "eth0", nil}, {"", "eth0", nil}, {"none0:1", "eth0", nil},
		{"eth0.5:3", "eth0", []int{3}}, {"eth0.5:3", "eth1", nil}, {"eth0.5:3,eth0:1", "eth0", []int{1}}, {"eth0.5:3,eth0", "eth0", nil},
		{"bond0:0-1", "m0", []int{0, 1}}, {"bond0:0-1", "m1", []int{0, 1}}, {"bond0:0-1", "eth0", nil}, {"bond0:0-1,m1:5", "m1", []int{5}},
		{"bond0.7:2", "m0", []int{2}}, {"bond0.7:2,bond0:2-3", "m0", []int{2, 3}}, {"bond0.7:2,bond0", "m0", nil},
	} {
		var list []conf.Interface
		if c.list != "" {
			var err error
			list, err = conf.ParseInterfaces(c.list)
			require.NoError(t, err)
		}
		queues, _ := queuesOf(list, snap, c.device)
		require.Equal(t, c.queues, queues, "%s of %q", c.device, c.list)
	}
}

// A device that was removed and comes back before its VLAN has the queues that it had.
func TestQueuesOfADeviceThatComesBack(t *testing.T) {
	var set conf.Settings
	var err error
	set.Offload.Interfaces, err = conf.ParseInterfaces("eth0.5:3")
	require.NoError(t, err)
	x := newInterfaces(slog.New(slog.DiscardHandler), &set)
	tables := facts()
	var change func(host.Facts)
	x.mirror, change, err = host.OpenTables(tables)
	require.NoError(t, err)
	defer func() { require.NoError(t, x.mirror.Close()) }()
	require.Equal(t, []int{3}, x.queuesToOpen("eth0"))
	tables.Links = slices.DeleteFunc(tables.Links, func(l host.Link) bool { return l.Name == "eth0.5" })
	change(tables)
	require.Eventually(t, func() bool { _, ok := x.mirror.Snapshot().LinkByName("eth0.5"); return !ok }, time.Minute, time.Millisecond)
	require.Equal(t, []int{3}, x.queuesToOpen("eth0"))
	require.Nil(t, x.queuesToOpen("eth1"))
}

// Queues that the setting names limit a poller whose configuration names another interface on the same device.
func TestQueuesThatLimitAPoller(t *testing.T) {
	snap := host.NewSnapshot(facts(), 1)
	for pair, limits := range map[[2]string]bool{{"eth0:0", "eth0.5"}: true, {"eth0.5:3", "eth0"}: true, {"eth0:0", "eth0"}: true,
		{"bond0:1", "bond0"}: true, {"none0:1", "none0"}: true, {"eth0", "eth0.5"}: false, {"eth1:0", "eth0.5"}: false,
		{"eth0.5:3,eth0", "eth0"}: false, {"bond0:1", "eth0"}: false} {
		setting, err := conf.ParseInterfaces(pair[0])
		require.NoError(t, err)
		configuration, err := conf.ParseInterfaces(pair[1])
		require.NoError(t, err)
		require.Equal(t, limits, sharesQueues(setting, configuration, snap), "%v", pair)
	}
}

// Of the queues that a poller names with a bond or a VLAN those are opened which the setting names too, on each device below.
func TestQueuesThatTheSettingLeavesOut(t *testing.T) {
	snap := host.NewSnapshot(facts(), 1)
	for _, c := range []struct {
		setting, poller string
		devices         []string
		left            bool
		code, says      string
	}{
		{"eth0:2", "eth0.5:1-3", []string{"eth0"}, true, "offload.queues_left_out", "queues 1, 3 of eth0, which"},
		{"eth0.5:1-3", "eth0:2", []string{"eth0"}, true, "", ""},
		{"eth0.5:1", "eth0:2", []string{"eth0"}, false, "xdp.refused", "of eth0 SX_OFFLOAD_INTERFACES names queues 1, PollerConfig.Interfaces queues 2: none"},
		{"eth1:1", "eth0:2", []string{"eth0"}, true, "", ""},
		{"bond0:1", "bond0:1-2", []string{"m0", "m1"}, true, "offload.queues_left_out", "queues 2 of m0 and queues 2 of m1, which"},
		{"bond0:1,m1:2", "bond0:1", []string{"m0", "m1"}, true, "offload.queues_left_out", "leaves out queues 1 of m1, which"},
		{"bond0:1,m1:2", "bond0:3", []string{"m0", "m1"}, false, "xdp.refused", "names queues 1, PollerConfig.Interfaces queues 3; of m1 "},
	} {
		setting, err := conf.ParseInterfaces(c.setting)
		require.NoError(t, err)
		named, err := conf.ParseInterfaces(c.poller)
		require.NoError(t, err)
		f := &offloading{poller: &Poller{engine: &Engine{nics: &interfaces{named: setting}}}}
		r, left := f.queuesLeftOut(snap, c.devices, named[0].Queues)
		require.Equal(t, c.left, left, "%v", c)
		require.Equal(t, c.code, r.Code, "%v", c)
		require.Contains(t, r.Text, c.says)
	}
}
