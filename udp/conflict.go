package udp

import "github.com/socketxtreme/socketxtreme/internal/wire"

// Binding is what decides whether two sockets may have the same port.
type Binding struct {
	Local                wire.Addr // zero: the wildcard
	Port                 uint16
	Interface            uint32
	ReuseAddr, ReusePort bool
}

// Conflict reports whether a second socket may not have the port because of a first: udp_lib_lport_inuse and inet_rcv_saddr_equal of
// the kernel, with all sockets of one user. Addresses meet when they are equal or one is the wildcard; sockets tied to
// different interfaces do not meet; both with SO_REUSEADDR or both with SO_REUSEPORT may share.
func Conflict(a, b Binding) bool {
	switch {
	case a.Port != b.Port,
		a.Interface != 0 && b.Interface != 0 && a.Interface != b.Interface,
		a.Local != b.Local && !a.Local.IsZero() && !b.Local.IsZero(),
		a.ReuseAddr && b.ReuseAddr, a.ReusePort && b.ReusePort:
		return false
	}
	return true
}
