package udp

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Error finds the socket that has sent the packet of an ICMP error.
func (u *Protocol) Error(_ clock.Time, e ip.ICMPError) wire.Drop {
	id, d := u.table.Unicast(&e.Flow)
	if d != wire.Accept {
		return wire.ICMPNoSocket
	}
	if e.Errno != 0 {
		u.raiseError(id, e.Errno)
	}
	return wire.Accept
}

// SocketError is an error for a connected socket, from an ICMP message.
type SocketError struct {
	Owner uint64
	Errno ip.Errno
}

// Errors are the errors for sockets, until the next ClearErrors.
func (u *Protocol) Errors() []SocketError { return u.errors }

// ClearErrors empties the list.
func (u *Protocol) ClearErrors() { u.errors = u.errors[:0] }

// raiseError appends an error for a connected socket to Errors. A socket that is not connected sends to many peers and gets none
// (RFC 1122 section 4.1.3.3; udp_err of the kernel).
func (u *Protocol) raiseError(id ID, e ip.Errno) {
	if !u.table.Endpoint(id).Remote.IsZero() {
		u.errors = append(u.errors, SocketError{Owner: u.table.Owner(id), Errno: e})
	}
}

// refuseLooped raises ECONNREFUSED on the sender of a looped datagram whose port no socket has.
func (u *Protocol) refuseLooped(f *Flow) {
	back := Flow{Source: f.Target, SourcePort: f.TargetPort, Target: f.Source, TargetPort: f.SourcePort}
	if id, d := u.table.Unicast(&back); d == wire.Accept {
		u.raiseError(id, ip.ECONNREFUSED)
	}
}
