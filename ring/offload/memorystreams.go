package offload

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/stream"
)

// What a memory host does for TCP: it keeps addresses and ports. All else is package stream's.

var _ stream.Below = (*MemoryHost)(nil)

// Listen gives a listener that was not bound a port of the host's choice.
func (n *MemoryHost) Listen(s *ring.Socket, _ int) (netip.AddrPort, error) {
	t := n.socketOf(s)
	switch {
	case t == nil:
		return netip.AddrPort{}, unix.EBADF
	case !t.hasPort:
		return n.Bind(s, netip.AddrPortFrom(netip.IPv4Unspecified(), 0))
	}
	return netip.AddrPortFrom(t.binding.Local.Netip(), t.binding.Port), nil
}

// ListenBeside: there is no kernel that could.
func (n *MemoryHost) ListenBeside(*ring.Socket, int) error { return nil }

// Release forgets a socket whose connection has ended.
func (n *MemoryHost) Release(c ring.Conn) error {
	delete(n.sockets, c)
	return nil
}

// Accept is the stack's: children have no socket of the host.
func (n *MemoryHost) Accept(_, _ *ring.Socket) netip.AddrPort { return netip.AddrPort{} }

// TakeOver refuses descriptors: there is no kernel. What another ring of the stack has accepted moves when it is on the ring.
func (n *MemoryHost) TakeOver(s *ring.Socket) (time.Duration, func(), error) {
	if ring.HandleOf(s).Conn >= stream.TransitBase { // -1: no linger time is to be set
		return -1, func() {}, nil
	}
	return 0, func() {}, &ring.FeatureError{Feature: "a descriptor of the kernel's, where the sockets are not", Code: "offload.no_kernel"}
}

// Ready has nothing to do.
func (n *MemoryHost) Ready(*ring.Socket) error { return nil }

// Refuse is the stack's.
func (n *MemoryHost) Refuse(ring.Conn) {}

// CloseWrite is the stack's.
func (n *MemoryHost) CloseWrite(*ring.Socket) error { return unix.ENOTCONN }
