package offload

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/host"
)

// Facts are the tables that a kernel makes by itself for one interface and its addresses: local and broadcast routes, the subnets, and
// the groups by the interface. More interfaces and routes are added by the caller.
func Facts(l host.Link, addrs ...netip.Prefix) (f host.Facts) {
	hop := []host.NextHop{{Interface: l.Index, Weight: 1}}
	f.Links = []host.Link{l}
	for i, p := range addrs {
		// The broadcast address: all bits behind the prefix are set. A kernel calls a later address of the same subnet secondary.
		last := binary.BigEndian.AppendUint32(nil, uint32Of(p.Masked().Addr())|uint32(1<<(32-p.Bits())-1))
		all, _ := netip.AddrFromSlice(last)
		f.Addresses = append(f.Addresses, host.Address{Interface: l.Index, Local: p.Addr(), Prefix: p.Masked(), Broadcast: all,
			Scope: unix.RT_SCOPE_UNIVERSE, Secondary: i > 0 && p.Masked() == addrs[0].Masked()})
		f.Routes = append(f.Routes,
			host.Route{Table: unix.RT_TABLE_LOCAL, Type: host.Local, Prefix: netip.PrefixFrom(p.Addr(), 32), Scope: unix.RT_SCOPE_HOST,
				Source: p.Addr(), Hops: hop},
			host.Route{Table: unix.RT_TABLE_LOCAL, Type: host.Broadcast, Prefix: netip.PrefixFrom(all, 32), Scope: unix.RT_SCOPE_LINK,
				Source: p.Addr(), Hops: hop},
			host.Route{Table: unix.RT_TABLE_MAIN, Type: host.Unicast, Prefix: p.Masked(), Scope: unix.RT_SCOPE_LINK, Source: p.Addr(),
				Hops: hop})
	}
	f.Routes = append(f.Routes, host.Route{Table: unix.RT_TABLE_MAIN, Type: host.Unicast, Prefix: netip.MustParsePrefix("224.0.0.0/4"),
		Scope: unix.RT_SCOPE_LINK, Hops: hop})
	return f
}

// uint32Of is an IPv4 address as a number, for computing with it.
func uint32Of(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}
