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
// TCP socket is bound in the kernel, so that nobody else gets its port.
//
// A listener listens in the kernel as well, once its flow is claimed: clients of this host, and of interfaces that are no links of the ring, get
// connections of the kernel, which are accepted on the same listener (viakernel.go). A stream that only the kernel can carry connects there: to
// an address of this host, over IPv6, over an interface that is no link of the ring.
//
// A listener on all addresses of both families is the stack's for IPv4, and the kernel's for IPv6.
type KernelPorts struct {
	*kernel.Transport
	streams *kernelTransport // of streams that the kernel carries
	host    *host.Host
}

var _ stream.Below = (*KernelPorts)(nil)

// NewKernelPorts makes it. The host is the driver's Config.Host.
func NewKernelPorts(h *host.Host) *KernelPorts {
	t := kernel.New()
	return &KernelPorts{t, &kernelTransport{t}, h}
}

// Open makes a socket of the kernel's; what the stack does not carry is refused with a reason.
func (n *KernelPorts) Open(kind ring.SocketKind, family ring.Family, c *ring.Config) (ring.Conn, error) {
	if kind != ring.KindDatagram && family == ring.UnixDomain {
		return 0, noUnix()
	}
	return n.Transport.Open(kind, family, c)
}

// TakeOver refuses connections that the kernel has. What another ring of the stack has accepted moves when it is on the ring.
func (n *KernelPorts) TakeOver(s *ring.Socket) (time.Duration, func(), error) {
	if ring.HandleOf(s).Conn >= stream.TransitBase { // -1: no linger time is to be set
		return -1, func() {}, nil
	}
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
	if s.Family() == ring.IPv6 {
		return n.Bind(s, netip.AddrPortFrom(netip.IPv6Unspecified(), 0))
	}
	return n.Bind(s, netip.AddrPortFrom(netip.IPv4Unspecified(), 0))
}

// ListenBeside is listen(2).
func (n *KernelPorts) ListenBeside(s *ring.Socket, backlog int) error {
	return unix.Listen(kernel.FD(s), backlog)
}

// Accept makes the kernel the transport of the socket of a connection that the kernel's listener has accepted, and returns its local address.
func (n *KernelPorts) Accept(s, listener *ring.Socket) netip.AddrPort {
	ring.SetTransport(s, n.streams, ring.HandleOf(s).Conn)
	return n.Transport.Accept(s, listener)
}

// IsDualStack reports whether a socket of IPv6 that listens, or will, receives connections of IPv4 too. One that is bound to one address, or
// connected, does not; one without an address does, because Listen binds it to all. Where IPV6_V6ONLY cannot be read the answer is no, and the
// kernel carries the socket.
func IsDualStack(s *ring.Socket) bool {
	if local := s.LocalAddr().Addr(); local.IsValid() && !local.IsUnspecified() || s.RemoteAddr().IsValid() {
		return false
	}
	only, err := unix.GetsockoptInt(kernel.FD(s), unix.IPPROTO_IPV6, unix.IPV6_V6ONLY)
	return err == nil && only == 0
}

// connectInKernel connects a stream that the kernel carries.
func (n *KernelPorts) connectInKernel(s *ring.Socket, remote netip.AddrPort) (netip.AddrPort, error) {
	ring.SetTransport(s, n.streams, ring.HandleOf(s).Conn)
	return n.Transport.Connect(s, remote)
}

// Connect of a TCP socket finds the address that the connection has, and binds the socket to a port there; what only the kernel can carry it
// connects.
func (n *KernelPorts) Connect(s *ring.Socket, remote netip.AddrPort) (netip.AddrPort, error) {
	switch {
	case ring.HandleOf(s).Kind == ring.KindDatagram:
		return n.Transport.Connect(s, remote)
	case s.Family() == ring.IPv6, remote.Port() == 0, remote.Addr().IsUnspecified(): // 0.0.0.0 is this host
		return n.connectInKernel(s, remote)
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
	case err != nil, remote.Addr().IsMulticast(), w.Type == host.Broadcast: // as tcp_v4_connect
		return local, unix.ENETUNREACH
	case w.Type == host.Local: // this host: its listeners may be the kernel's
		return n.connectInKernel(s, remote)
	case local.Port() == 0:
		return n.Bind(s, netip.AddrPortFrom(w.Source, 0))
	}
	// The socket below stays bound as it is, if to a wildcard: that reserves the port too.
	return netip.AddrPortFrom(w.Source, local.Port()), nil
}

// SetOption: pacing is the kernel's, which does not send.
func (n *KernelPorts) SetOption(s *ring.Socket, o ring.Option, value int) error {
	if o == ring.OptionPacingRate && ring.HandleOf(s).Kind != ring.KindDatagram {
		return stream.NoPacing()
	}
	if ring.HandleOf(s).Conn >= stream.TransitBase {
		return nil // stream.Transport.Adopt reads it from Socket.Options
	}
	return n.Transport.SetOption(s, o, value)
}
