package wire

import (
	"encoding/binary"
	"net"
	"net/netip"
)

// MAC is an Ethernet address.
type MAC [6]byte

// Broadcast is every station.
var Broadcast = MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// IsGroup reports whether the address is multicast or broadcast.
func (m MAC) IsGroup() bool { return m[0]&1 != 0 }

// IsZero reports whether the address is all zeros: none.
func (m MAC) IsZero() bool { return m == MAC{} }

// String is the usual notation with colons.
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// GroupMAC is the Ethernet address of an IPv4 group. 32 groups share each (RFC 1112 6.4), so the receiver still compares
// the whole group.
func GroupMAC(group Addr) MAC { return MAC{0x01, 0x00, 0x5e, group[1] & 0x7f, group[2], group[3]} }

// Addr is an IPv4 address in network order: comparable, four bytes, a key of flow tables.
type Addr [4]byte

// AddrFrom is the IPv4 address in a, which may be mapped into IPv6; false when there is none.
func AddrFrom(a netip.Addr) (Addr, bool) {
	if a = a.Unmap(); !a.Is4() {
		return Addr{}, false
	}
	return a.As4(), true
}

// Netip is the address as the application sees it.
func (a Addr) Netip() netip.Addr { return netip.AddrFrom4(a) }

// Uint32 is the address as a number, the first byte highest.
func (a Addr) Uint32() uint32 { return binary.BigEndian.Uint32(a[:]) }

// IsZero reports whether the address is 0.0.0.0.
func (a Addr) IsZero() bool { return a == Addr{} }

// IsMulticast reports whether the address is a group: 224/4.
func (a Addr) IsMulticast() bool { return a[0]&0xf0 == 0xe0 }

// IsLoopback reports whether the address is in 127/8.
func (a Addr) IsLoopback() bool { return a[0] == 127 }

// IsBroadcast reports whether the address is the limited broadcast. A subnet's broadcast address only its host knows.
func (a Addr) IsBroadcast() bool { return a == Addr{255, 255, 255, 255} }

// IsReserved reports whether the address is in 240/4: reserved, or the limited broadcast (RFC 1112 4).
func (a Addr) IsReserved() bool { return a[0] >= 240 }

// String is the dotted notation.
func (a Addr) String() string { return a.Netip().String() }
