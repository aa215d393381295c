package host

import "net/netip"

// Address is one IPv4 address of an interface.
type Address struct {
	Interface int
	Local     netip.Addr
	// Prefix is the subnet; on a point-to-point link the peer's address.
	Prefix    netip.Prefix
	Broadcast netip.Addr // zero when the interface has none
	Scope     uint8      // unix.RT_SCOPE_UNIVERSE …
	Secondary bool       // another address of the same subnet comes first
}
