package udp

import (
	"errors"
	"fmt"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// ID is the number of a socket in its table, small and dense. It is used again after Remove.
type ID int32

// Endpoint is a socket's addresses, with the options that decide which datagrams it receives.
type Endpoint struct {
	Owner                 uint64          // the caller's number of the socket; deliveries carry it
	Account               buffers.Account // charged for received datagrams
	Local, Remote         wire.Addr       // Local zero: the wildcard; Remote zero: not connected
	LocalPort, RemotePort uint16
	Interface             uint32 // bound to it (SO_BINDTODEVICE); 0: to none
	ReusePort             bool
	MulticastAll          bool // takes datagrams of groups that it did not join, as Linux does by default
}

// ErrEndpoint: the address cannot be a socket's.
var ErrEndpoint = errors.New("udp: not an address of a socket")

// check names a combination of addresses and ports that no socket can have.
func (e *Endpoint) check() error {
	switch {
	case e.LocalPort == 0:
		return fmt.Errorf("udp: LocalPort 0: %w", ErrEndpoint)
	case e.Remote.IsZero() != (e.RemotePort == 0):
		return fmt.Errorf("udp: Remote %v with RemotePort %d: %w", e.Remote, e.RemotePort, ErrEndpoint)
	case e.Local.IsZero() && !e.Remote.IsZero():
		return fmt.Errorf("udp: Local 0.0.0.0 with Remote %v: a connected socket has an address: %w", e.Remote, ErrEndpoint)
	}
	return nil
}

// Binding is what two sockets are compared by to decide whether both may have the same port.
type Binding struct {
	Local                wire.Addr // zero: the wildcard
	Port                 uint16
	Interface            uint32
	ReuseAddr, ReusePort bool
}

// Conflict reports whether a second socket may not have the port because of a first: udp_lib_lport_inuse and inet_rcv_saddr_equal of
// the kernel, with all sockets of one user. Addresses overlap when they are equal or one is the wildcard; sockets
// bound to different interfaces do not overlap; both with SO_REUSEADDR or both with SO_REUSEPORT may share.
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
