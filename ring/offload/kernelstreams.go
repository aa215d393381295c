package offload

import (
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
	"github.com/socketxtreme/socketxtreme/ring/transport/stream"
)

// KernelPorts is the ring.Transport of a set whose driver carries TCP beside a kernel ([Config].TCP). UDP sockets are the kernel's, as ever. A
// TCP socket is bound in the kernel and neither listens nor connects there: so nobody else gets its port, and no segment is the kernel's.
//
// What is missing: the kernel has no listener, so it refuses clients of this host and of interfaces that are no links of the ring. And nothing
// keeps segments of our connections away from the kernel when the steering program is taken off: the kernel then resets the peers.
type KernelPorts struct {
	*kernel.Transport
	host *host.Host
}

var _ stream.Below = (*KernelPorts)(nil)

// NewKernelPorts makes it. The host is the driver's Config.Host.
func NewKernelPorts(h *host.Host) *KernelPorts { return &KernelPorts{kernel.New(), h} }

// Open makes a socket of the kernel's; what the stack does not carry is refused with a reason.
func (n *KernelPorts) Open(kind ring.SocketKind, family ring.Family, c *ring.Config) (ring.Conn, error) {
	switch {
	case kind == ring.KindDatagram:
	case family == ring.UnixDomain:
		return 0, noTCP()
	case family != ring.IPv4:
		return 0, &ring.FeatureError{Feature: "IPv6 over this stack", Code: "offload.no_ipv6"}
	}
	return n.Transport.Open(kind, family, c)
}

// TakeOver refuses connections that the kernel has.
func (n *KernelPorts) TakeOver(s *ring.Socket) (time.Duration, func(), error) {
	if ring.HandleOf(s).Kind != ring.KindDatagram {
		return 0, func() {}, &ring.FeatureError{Feature: "a TCP socket made elsewhere, over this stack", Code: "offload.adopted"}
	}
	return n.Transport.TakeOver(s)
}

// Listen binds a socket that was not bound.
func (n *KernelPorts) Listen(s *ring.Socket, _ int) (netip.AddrPort, error) {
	if local := s.LocalAddr(); local.Port() != 0 {
		return local, nil
	}
	return n.Bind(s, netip.AddrPortFrom(netip.IPv4Unspecified(), 0))
}

// Connect of a TCP socket finds the address that the connection has, and binds the socket to a port there.
func (n *KernelPorts) Connect(s *ring.Socket, remote netip.AddrPort) (netip.AddrPort, error) {
	if ring.HandleOf(s).Kind == ring.KindDatagram {
		return n.Transport.Connect(s, remote)
	}
	local := s.LocalAddr()
	q := host.Query{Target: remote.Addr(), Interface: s.Device()}
	if a := local.Addr(); a.IsValid() && !a.IsUnspecified() {
		q.Source = a
	}
	w, err := n.host.Snapshot().Route(q)
	if refused := (*host.RouteError)(nil); errors.As(err, &refused) {
		return local, refused.Errno
	}
	switch {
	case err != nil:
		return local, unix.ENETUNREACH
	case remote.Port() == 0 || remote.Addr().IsMulticast() || w.Type == host.Broadcast:
		return local, unix.ENETUNREACH
	case w.Type == host.Local:
		return local, &ring.FeatureError{Feature: "TCP to an address of this host over this stack, beside a kernel", Code: "tcp.same_host"}
	case local.Port() == 0:
		return n.Bind(s, netip.AddrPortFrom(w.Source, 0))
	}
	return netip.AddrPortFrom(w.Source, local.Port()), nil
}

// SetOption: pacing is the kernel's, which does not send.
func (n *KernelPorts) SetOption(s *ring.Socket, o ring.Option, value int) error {
	if o == ring.OptionPacingRate && ring.HandleOf(s).Kind != ring.KindDatagram {
		return stream.NoPacing()
	}
	return n.Transport.SetOption(s, o, value)
}

// Release closes the descriptor of a connection that has ended.
func (n *KernelPorts) Release(c ring.Conn) error { return unix.Close(int(c)) }
