package host

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// attribute writes one attribute, padded.
func attribute(typ uint16, v ...byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofRtAttr+len(v)))
	b = append(binary.NativeEndian.AppendUint16(b, typ), v...)
	return append(b, make([]byte, -len(v)&3)...)
}

func u32(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

func join(parts ...[]byte) (all []byte) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// linkMessage is ifinfomsg and attributes.
func linkMessage(family byte, index, flags uint32, attributes ...[]byte) []byte {
	b := binary.NativeEndian.AppendUint16([]byte{family, 0}, unix.ARPHRD_ETHER)
	return append(join(b, u32(index), u32(flags), u32(0)), join(attributes...)...)
}

// TestDecodeKindsThisKernelMayLack: the messages of a VLAN, a bond and its member, as linux/if_link.h lays them out.
func TestDecodeKindsThisKernelMayLack(t *testing.T) {
	l, ok, err := decodeLink(linkMessage(unix.AF_UNSPEC, 7, up,
		attribute(unix.IFLA_IFNAME, []byte("eth0.5\x00")...), attribute(unix.IFLA_MTU, u32(1496)...), attribute(unix.IFLA_LINK, u32(2)...),
		attribute(unix.IFLA_ADDRESS, 2, 0, 0, 0, 0, 7),
		attribute(unix.IFLA_LINKINFO|unix.NLA_F_NESTED, join(attribute(unix.IFLA_INFO_KIND, []byte("vlan\x00")...),
			attribute(unix.IFLA_INFO_DATA, join(attribute(unix.IFLA_VLAN_ID, 5, 0), attribute(unix.IFLA_VLAN_PROTOCOL, 0x81, 0))...))...)))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, Link{Index: 7, Name: "eth0.5", Kind: "vlan", Type: unix.ARPHRD_ETHER, MAC: wire.MAC{2, 0, 0, 0, 0, 7}, MTU: 1496,
		Flags: up, Parent: 2, Netns: -1, VLAN: 5, VLANProtocol: wire.TypeVLAN}, l)

	l, _, err = decodeLink(linkMessage(unix.AF_UNSPEC, 8, up, attribute(unix.IFLA_LINKINFO,
		join(attribute(unix.IFLA_INFO_KIND, []byte("bond\x00")...), attribute(unix.IFLA_INFO_DATA,
			join(attribute(unix.IFLA_BOND_MODE, 1), attribute(unix.IFLA_BOND_ACTIVE_SLAVE, u32(9)...))...))...)))
	require.NoError(t, err)
	require.Equal(t, KindBond, l.Kind)
	require.Equal(t, BondActiveBackup, l.BondMode)
	require.Equal(t, 9, l.BondActive)

	l, _, err = decodeLink(linkMessage(unix.AF_UNSPEC, 9, up, attribute(unix.IFLA_MASTER, u32(8)...), attribute(unix.IFLA_LINKINFO,
		join(attribute(unix.IFLA_INFO_SLAVE_KIND, []byte("bond\x00")...),
			attribute(unix.IFLA_INFO_SLAVE_DATA, attribute(unix.IFLA_BOND_SLAVE_STATE, 1)...))...)))
	require.NoError(t, err)
	require.Equal(t, 8, l.Master)
	require.True(t, l.BondBackup)
	require.Equal(t, KindPhysical, l.Kind)
}

func TestDecodeIgnoresOtherFamilies(t *testing.T) {
	_, ok, err := decodeLink(linkMessage(unix.AF_BRIDGE, 7, up))
	require.NoError(t, err)
	require.False(t, ok, "a bridge speaks of its port")
	_, ok, err = decodeAddress(append([]byte{unix.AF_INET6, 64}, make([]byte, 6)...))
	require.NoError(t, err)
	require.False(t, ok)
	_, ok, err = decodeRoute(append([]byte{unix.AF_INET6}, make([]byte, 11)...))
	require.NoError(t, err)
	require.False(t, ok)
	cloned := append([]byte{unix.AF_INET, 32, 0, 0, 254, 0, 0, 1}, u32(unix.RTM_F_CLONED)...)
	_, ok, err = decodeRoute(cloned)
	require.NoError(t, err)
	require.False(t, ok, "a cached route")
	_, ok, err = decodeNeighbour(append([]byte{unix.AF_INET6}, make([]byte, 11)...))
	require.NoError(t, err)
	require.False(t, ok)
}

func TestDecodeRules(t *testing.T) {
	rule := func(table byte, attributes ...[]byte) []byte {
		return append([]byte{unix.AF_INET, 0, 0, 0, table, 0, 0, unix.FR_ACT_TO_TBL, 0, 0, 0, 0}, join(attributes...)...)
	}
	off := attribute(unix.FRA_SUPPRESS_PREFIXLEN, u32(1<<32-1)...)
	for _, c := range []struct {
		foreign bool
		b       []byte
	}{
		{false, rule(255, attribute(unix.FRA_TABLE, u32(255)...), off)},
		{false, rule(254, attribute(unix.FRA_TABLE, u32(254)...), attribute(unix.FRA_PRIORITY, u32(32766)...), attribute(unix.FRA_PROTOCOL, 2))},
		{false, rule(253, attribute(unix.FRA_PRIORITY, u32(32767)...))},
		{true, rule(100, attribute(unix.FRA_PRIORITY, u32(1000)...))},
		{true, rule(254, attribute(unix.FRA_PRIORITY, u32(32766)...), attribute(unix.FRA_SRC, 10, 0, 0, 1))},
		{true, rule(254, attribute(unix.FRA_PRIORITY, u32(32766)...), attribute(unix.FRA_SUPPRESS_PREFIXLEN, u32(0)...))},
	} {
		foreign, err := decodeRule(c.b)
		require.NoError(t, err)
		require.Equal(t, c.foreign, foreign)
	}
}

// message is nlmsghdr and body.
func message(typ uint16, body []byte) []byte {
	b := u32(uint32(unix.SizeofNlMsghdr + len(body)))
	b = binary.NativeEndian.AppendUint16(b, typ)
	return append(append(b, make([]byte, 10)...), body...)
}

func TestNotificationsSayWhatToRead(t *testing.T) {
	entry := append([]byte{unix.AF_INET, 0, 0, 0}, join(u32(2), []byte{unix.NUD_REACHABLE, 0, 0, 1},
		attribute(unix.NDA_DST, 10, 0, 0, 254), attribute(unix.NDA_LLADDR, 2, 0, 0, 0, 0, 9))...)
	b, err := notifications(join(message(unix.RTM_NEWNEIGH, entry), message(unix.RTM_DELNEIGH, entry)))
	require.NoError(t, err)
	want := neighbour(gateway, unix.NUD_REACHABLE, 9)
	require.Equal(t, batch{neighbours: []neighbourChange{{want, false}, {want, true}}}, b)

	for typ, stale := range map[uint16]part{
		unix.RTM_NEWLINK: partLinks | partAddresses | partRoutes, unix.RTM_DELLINK: partLinks | partRoutes | partAddresses | partNeighbours,
		unix.RTM_NEWADDR: partAddresses | partRoutes, unix.RTM_DELADDR: partAddresses | partRoutes,
		unix.RTM_NEWROUTE: partRoutes, unix.RTM_DELROUTE: partRoutes, unix.RTM_NEWRULE: partRules | partRoutes,
		unix.RTM_NEWNEXTHOP: partRoutes, unix.RTM_NEWNSID: 0,
	} {
		b, err := notifications(message(typ, nil))
		require.NoError(t, err)
		require.Equal(t, batch{stale: stale}, b)
	}
	_, err = notifications(message(unix.NLMSG_OVERRUN, nil))
	require.ErrorIs(t, err, errOverrun)
	_, err = notifications(message(unix.RTM_NEWNEIGH, nil))
	require.ErrorIs(t, err, errOverrun, "what cannot be read is read anew")
	_, err = notifications(u32(8))
	require.NoError(t, err)
	_, err = notifications(append(u32(8), make([]byte, 12)...))
	require.ErrorIs(t, err, errOverrun)
}

func FuzzDecode(f *testing.F) {
	f.Add(linkMessage(0, 2, 3, attribute(unix.IFLA_LINKINFO, attribute(unix.IFLA_INFO_KIND, 'v', 0)...)))
	f.Add(append([]byte{unix.AF_INET, 24, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0}, attribute(unix.RTA_MULTIPATH, 8, 0, 0, 0, 2, 0, 0, 0)...))
	f.Add(append([]byte{unix.AF_INET, 33, 0, 0, 1, 0, 0, 0}, attribute(unix.IFA_LOCAL, 10, 0, 0, 1)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, ok, err := decodeRoute(b); ok && err == nil {
			require.True(t, r.Prefix.IsValid())
		}
		if a, ok, err := decodeAddress(b); ok && err == nil {
			require.True(t, a.Prefix.IsValid())
		}
		if n, ok, err := decodeNeighbour(b); ok && err == nil {
			require.True(t, n.Addr.Is4())
		}
		_, _, _ = decodeLink(b)
		_, _ = decodeRule(b)
		_, _ = notifications(b)
	})
}
