package simnet

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
)

// transport is a kernel as the transport of the rings of a machine: UDP over IPv4.
type transport struct{ k *Kernel }

var _ ring.Transport = transport{}

func (t transport) of(s *ring.Socket) *ksocket { return t.k.sockets[int(ring.HandleOf(s).Conn)] }

// Open makes a UDP socket for IPv4.
func (t transport) Open(kind ring.SocketKind, family ring.Family, _ *ring.Config) (ring.Conn, error) {
	if kind != ring.KindDatagram || family != ring.IPv4 {
		return 0, errOnlyUDP
	}
	return ring.Conn(t.k.openSocket(true).fd), nil
}

var errOnlyUDP = &ring.FeatureError{Feature: "sockets other than UDP over IPv4 in a simulated kernel", Code: "simnet.only_udp"}

// Close closes the socket.
func (t transport) Close(s *ring.Socket, _ bool) error {
	return t.k.closeFD(int(ring.HandleOf(s).Conn))
}

// Bind gives it an address.
func (t transport) Bind(s *ring.Socket, local netip.AddrPort) (netip.AddrPort, error) {
	x := t.of(s)
	if x == nil {
		return local, unix.EBADF
	}
	if err := x.bind(local); err != nil {
		return local, err
	}
	return x.local, nil
}

// Connect gives it a peer, and an address where it has none.
func (t transport) Connect(s *ring.Socket, remote netip.AddrPort) (netip.AddrPort, error) {
	x := t.of(s)
	if x == nil {
		return netip.AddrPort{}, unix.EBADF
	}
	w, err := t.k.snapshot.Route(host.Query{Target: remote.Addr(), Interface: x.device})
	if err != nil {
		return netip.AddrPort{}, err
	}
	if !x.bound {
		if err := x.bind(netip.AddrPortFrom(w.Source, 0)); err != nil {
			return netip.AddrPort{}, err
		}
	}
	if x.local.Addr().IsUnspecified() {
		x.local = netip.AddrPortFrom(w.Source, x.local.Port())
	}
	x.remote = remote
	return x.local, nil
}

// SetOption sets an option of the socket. Some are accepted without an effect in the simulation; an unknown one is ENOPROTOOPT, as in Linux.
func (t transport) SetOption(s *ring.Socket, o ring.Option, value int) error {
	x := t.of(s)
	if x == nil {
		return unix.EBADF
	}
	switch o {
	case ring.OptionReuseAddr, ring.OptionReusePort:
		x.reuse = x.reuse || value != 0
	case ring.OptionMulticastAll:
		x.all = value != 0
	case ring.OptionMulticastLoop:
		x.loop = value != 0
	case ring.OptionMulticastInterface:
		x.mcastIf = value
	case ring.OptionReceiveBuffer:
		x.room = value
	case ring.OptionBroadcast, ring.OptionSendBuffer, ring.OptionTTL, ring.OptionTOS, ring.OptionMulticastTTL:
	default:
		return unix.ENOPROTOOPT
	}
	return nil
}

// SetDevice ties it to an interface.
func (t transport) SetDevice(s *ring.Socket, name string, _ int) error {
	return kernelCalls(t).BindToDevice(int(ring.HandleOf(s).Conn), name)
}

// SetMembership joins or leaves a group.
func (t transport) SetMembership(s *ring.Socket, m ring.Membership, join bool) error {
	return kernelCalls(t).SetMembership(int(ring.HandleOf(s).Conn), m.Group, m.Interface, m.Source, join)
}

// Interface finds an interface by its name.
func (t transport) Interface(name string) (int, error) {
	l, ok := t.k.snapshot.LinkByName(name)
	if !ok {
		return 0, fmt.Errorf("interface %s: %w", name, unix.ENODEV)
	}
	return l.Index, nil
}

// InterfaceOf is the interface that has the address.
func (t transport) InterfaceOf(a netip.Addr) int {
	index, _ := t.k.snapshot.Local(a)
	return index
}

// RoutedInterface is the one that a group is joined on.
func (t transport) RoutedInterface(group netip.Addr) int {
	w, err := t.k.snapshot.Route(host.Query{Target: group})
	if err != nil {
		return 0
	}
	return w.Interface
}

// Drops returns how many datagrams found the socket's queue full.
func (t transport) Drops(s *ring.Socket) (uint32, error) {
	if x := t.of(s); x != nil {
		return x.drops, nil
	}
	return 0, unix.EBADF
}

// Send sends a datagram by the kernel.
func (t transport) Send(s *ring.Socket, b []byte, to netip.AddrPort) (int, syscall.Errno) {
	x := t.of(s)
	if x == nil {
		return 0, unix.EBADF
	}
	if !to.IsValid() {
		to = x.remote
	}
	return len(b), t.k.send(x, slices.Clone(b), to)
}

// SendVector sends the pieces as one datagram.
func (t transport) SendVector(s *ring.Socket, bufs [][]byte, to netip.AddrPort) (int, syscall.Errno) {
	return t.Send(s, slices.Concat(bufs...), to)
}

// Listen fails, as do the methods below it: they are for streams, which Open refuses.
func (transport) Listen(*ring.Socket, int) (netip.AddrPort, error) {
	return netip.AddrPort{}, errOnlyUDP
}
func (transport) Accept(_, _ *ring.Socket) netip.AddrPort { return netip.AddrPort{} }
func (transport) Refuse(ring.Conn)                        {}
func (transport) CloseWrite(*ring.Socket) error           { return errOnlyUDP }
