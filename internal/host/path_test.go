package host

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// TestPathOfEachKind runs on a made-up table, because no one kernel has all kinds.
func TestPathOfEachKind(t *testing.T) {
	mac := func(n byte) wire.MAC { return wire.MAC{2, 0, 0, 0, 0, n} }
	eth := func(index int, name, kind string) Link {
		return Link{Index: index, Name: name, Kind: kind, Type: unix.ARPHRD_ETHER, MAC: mac(byte(index)), MTU: 1500, Flags: up, Netns: -1}
	}
	with := func(l Link, edit func(l *Link)) Link { edit(&l); return l }
	member := func(index, master int) Link {
		return with(eth(index, "m", ""), func(l *Link) { l.Master = master })
	}
	links := []Link{
		{Index: 1, Name: "lo", Type: unix.ARPHRD_LOOPBACK, Flags: up | unix.IFF_LOOPBACK, Netns: -1},
		eth(2, "eth0", ""),
		with(eth(3, "veth0", "veth"), func(l *Link) { l.Parent, l.Netns = 2, 0 }),
		with(eth(4, "eth0.5", "vlan"), func(l *Link) { l.Parent, l.VLAN, l.VLANProtocol = 2, 5, wire.TypeVLAN }),
		with(eth(5, "eth0.5.6", "vlan"), func(l *Link) { l.Parent, l.VLAN, l.VLANProtocol = 4, 6, wire.TypeVLAN }),
		with(eth(6, "ad", "vlan"), func(l *Link) { l.Parent, l.VLAN, l.VLANProtocol = 2, 6, wire.TypeQinQ }),
		with(eth(7, "far", "vlan"), func(l *Link) { l.Parent, l.VLAN, l.VLANProtocol, l.Netns = 2, 6, wire.TypeVLAN, 3 }),

		with(eth(10, "bond0", "bond"), func(l *Link) { l.BondMode, l.BondActive = BondActiveBackup, 12 }),
		with(member(11, 10), func(l *Link) { l.BondBackup = true }), member(12, 10),
		with(eth(13, "bond1", "bond"), func(l *Link) { l.BondMode = Bond8023AD }),
		member(14, 13), with(member(15, 13), func(l *Link) { l.Flags = unix.IFF_UP }),
		with(eth(16, "bond2", "bond"), func(l *Link) { l.BondMode = BondRoundRobin }), member(17, 16),
		with(eth(18, "bond3", "bond"), func(l *Link) { l.BondMode = BondXOR }),
		with(eth(19, "bond0.7", "vlan"), func(l *Link) { l.Parent, l.VLAN, l.VLANProtocol = 10, 7, wire.TypeVLAN }),
		with(eth(8, "bond4", "bond"), func(l *Link) { l.BondMode = BondXOR }),
		with(member(9, 8), func(l *Link) { l.Kind = "dummy" }),

		eth(20, "br0", "bridge"), member(21, 20),
		with(eth(22, "port.8", "vlan"), func(l *Link) { l.Parent, l.VLAN, l.VLANProtocol = 21, 8, wire.TypeVLAN }),
		eth(30, "vrf0", "vrf"), member(31, 30), eth(32, "team0", "team"), member(33, 32), member(34, 99), member(35, 2),

		with(eth(40, "mv0", "macvlan"), func(l *Link) { l.Parent, l.MacvlanMode = 2, 4 }),
		with(eth(41, "mv1", "macvlan"), func(l *Link) { l.Parent, l.MacvlanMode = 2, MacvlanSource }),
		eth(42, "ipvl0", "ipvlan"), eth(43, "mtap0", "macvtap"),
		with(eth(44, "mv0.9", "vlan"), func(l *Link) { l.Parent, l.VLAN, l.VLANProtocol = 40, 9, wire.TypeVLAN }),
		with(eth(45, "mv0.10", "vlan"), func(l *Link) { l.Parent, l.VLAN, l.VLANProtocol, l.MAC = 40, 10, wire.TypeVLAN, mac(40) }),

		eth(50, "tap0", "tun"), {Index: 51, Name: "tun0", Kind: "tun", Type: unix.ARPHRD_NONE, Netns: -1},
		eth(52, "dummy0", "dummy"), eth(53, "vx0", "vxlan"), {Index: 54, Name: "gre0", Kind: "gre", Type: unix.ARPHRD_IPGRE, Netns: -1},
		{Index: 55, Name: "wg0", Kind: "wireguard", Type: unix.ARPHRD_NONE, Netns: -1}, eth(56, "gt0", "gretap"),
		eth(57, "odd", "warp"), {Index: 58, Name: "ib0", Type: unix.ARPHRD_INFINIBAND, Netns: -1}, eth(59, "ifb0", "ifb"),
		with(eth(60, "dummy0.1", "vlan"), func(l *Link) { l.Parent, l.VLAN, l.VLANProtocol = 52, 1, wire.TypeVLAN }),
	}
	s := NewSnapshot(Facts{Links: links}, 1)
	for index, c := range map[int]struct {
		code    string
		attach  []int
		send    []int
		vlan    uint16
		mac     byte
		generic bool
	}{
		1: {code: "link.loopback"}, 99: {code: "link.none"},
		2: {"link.plain", []int{2}, []int{2}, 0, 2, false},
		3: {"link.veth", []int{3}, []int{3}, 0, 3, true},
		4: {"link.vlan", []int{2}, []int{2}, 5, 4, false},
		5: {code: "link.qinq"}, 6: {code: "link.vlan_8021ad"}, 7: {code: "link.vlan_parent"},
		10: {"link.bond", []int{11, 12}, []int{12}, 0, 10, false},
		11: {code: "link.bond_member"}, 12: {code: "link.bond_member"},
		13: {"link.bond", []int{14, 15}, []int{14}, 0, 13, false},
		16: {code: "link.bond_mode"}, 18: {code: "link.bond_empty"}, 8: {code: "link.bond_members"},
		19: {"link.vlan", []int{11, 12}, []int{12}, 7, 19, false},
		20: {"link.bridge", []int{20}, []int{20}, 0, 20, true},
		21: {code: "link.bridge_port"}, 22: {code: "link.bridge_port"},
		30: {code: "link.vrf"}, 31: {code: "link.vrf_member"}, 32: {code: "link.team"}, 33: {code: "link.team_member"},
		34: {code: "link.enslaved"}, 35: {code: "link.enslaved"},
		40: {"link.macvlan", []int{40}, []int{40}, 0, 40, true},
		41: {code: "link.macvlan_source"}, 42: {code: "link.ipvlan"}, 43: {code: "link.macvtap"},
		44: {code: "link.vlan_mac"},
		45: {"link.vlan", []int{40}, []int{40}, 10, 40, true},
		50: {"link.tap", []int{50}, []int{50}, 0, 50, true},
		51: {code: "link.tun"}, 52: {code: "link.dummy"}, 53: {code: "link.tunnel"}, 54: {code: "link.not_ethernet"},
		55: {code: "link.not_ethernet"}, 56: {code: "link.tunnel"}, 57: {code: "link.unknown_kind"},
		58: {code: "link.not_ethernet"}, 59: {code: "link.ifb"}, 60: {code: "link.dummy"},
	} {
		p := s.Path(index)
		require.Equal(t, c.code, p.Code, "%d: %s", index, p.Text)
		require.NotEmpty(t, p.Text)
		require.Equal(t, c.attach, p.Attach, "%d", index)
		require.Equal(t, c.send, p.Send, "%d", index)
		require.Equal(t, c.vlan, p.VLAN, "%d", index)
		require.Equal(t, c.generic, p.Generic, "%d", index)
		require.Equal(t, c.attach != nil, p.Offload, "%d", index)
		if p.Offload {
			require.Equal(t, mac(c.mac), p.MAC, "%d", index)
		}
	}
}
