package ip

import (
	"net/netip"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// AddressKind says whether an address is the host's own.
type AddressKind uint8

// The kinds of address.
const (
	AddressOther     AddressKind = iota // another host's, or a group
	AddressLocal                        // of one of the host's interfaces
	AddressBroadcast                    // all hosts of an interface's subnet
)

// localAddress is an address of this host, or a broadcast address of one of its subnets.
type localAddress struct {
	addr  wire.Addr
	iface uint32 // of a broadcast address
	kind  AddressKind
}

// readAddresses makes the list of local addresses, and its filter, from the host's tables.
func (s *Stack) readAddresses() {
	s.addresses, s.lastAddr, s.addressFilter = s.addresses[:0], localAddress{}, 0
	for _, a := range s.snapshot.Addresses() {
		if addr, ok := wire.AddrFrom(a.Local); ok {
			s.addresses = append(s.addresses, localAddress{addr: addr, kind: AddressLocal})
		}
		if a.Broadcast.IsValid() {
			if addr, ok := wire.AddrFrom(a.Broadcast); ok {
				s.addresses = append(s.addresses, localAddress{addr: addr, iface: uint32(a.Interface), kind: AddressBroadcast})
			}
		}
	}
	for i := range s.addresses {
		s.addressFilter |= filterBit(s.addresses[i].addr)
	}
}

// filterBit is the bit of an address in a filter of 64: an address whose bit is not set is not among those the filter was made of.
func filterBit(a wire.Addr) uint64 { return 1 << (a.Uint32() * 0x9e3779b1 >> 26) }

// AddressKind looks an address of a packet up among the local ones; iface is the interface that the packet came by, 0 means any interface. The
// last result is kept, and the filter rules out most addresses of other hosts without a search.
func (s *Stack) AddressKind(a wire.Addr, iface uint32) AddressKind {
	if a == s.lastAddr.addr && (s.lastAddr.iface == iface || s.lastAddr.iface == 0) {
		return s.lastAddr.kind
	}
	if a.IsBroadcast() {
		return AddressBroadcast
	}
	if s.addressFilter&filterBit(a) == 0 {
		return AddressOther
	}
	for i := range s.addresses {
		if l := &s.addresses[i]; l.addr == a && (l.iface == 0 || iface == 0 || l.iface == iface) {
			s.lastAddr = *l
			return l.kind
		}
	}
	return AddressOther
}

// hasAddress reports whether the address is one of the interface: ARP is answered on it alone.
func (s *Stack) hasAddress(iface int, a netip.Addr) bool {
	for _, x := range s.snapshot.Addresses() {
		if x.Interface == iface && x.Local == a {
			return true
		}
	}
	return false
}
