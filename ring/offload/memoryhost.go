package offload

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/transport/stream"
	"github.com/socketxtreme/socketxtreme/udp"
)

// MemoryHost is the addresses, routes and ports of a host without a kernel: that of an Exchange whose interfaces lead to other stacks only, and
// the ring.Transport of the set. It serves one ring and belongs to its owner. Its sockets send and receive by the ring's driver.
type MemoryHost struct {
	tables  *ip.LocalHost
	random  func() uint64
	sockets map[ring.Conn]*memorySocket
	next    ring.Conn
	streams bool        // its driver carries TCP
	hasRing atomic.Bool // a driver is on it
}

// memorySocket is a socket of a memory host.
type memorySocket struct {
	binding   udp.Binding
	remote    netip.AddrPort
	groups    []ring.Membership // in the place of the kernel's list: answers of SetMembership depend on them; the interface resolved
	broadcast bool              // SO_BROADCAST
	hasPort   bool              // has one
	stream    bool              // TCP: its ports are others than UDP's
}

var (
	_ ring.Transport = (*MemoryHost)(nil)
	_ nic.Tables     = (*MemoryHost)(nil)
)

// NewMemoryHost makes a host from tables. Each interface needs an address and the routes of its subnet. random chooses ports.
func NewMemoryHost(f host.Facts, random func() uint64) (*MemoryHost, error) {
	own, err := ip.NewLocalHost(f)
	if err != nil {
		return nil, err
	}
	return &MemoryHost{tables: own, random: random, sockets: map[ring.Conn]*memorySocket{}}, nil
}

// Snapshot is the host's tables as they are now, Generation theirs.
func (n *MemoryHost) Snapshot() *host.Snapshot { return n.tables.Snapshot() }

// Generation is that of Snapshot.
func (n *MemoryHost) Generation() uint64 { return n.tables.Generation() }

// SetFacts gives the host other tables: an address went, a route came, the MTU changed.
func (n *MemoryHost) SetFacts(f host.Facts) { n.tables.Set(f) }

// Open makes a UDP or TCP socket for IPv4; others are refused with a reason.
func (n *MemoryHost) Open(kind ring.SocketKind, family ring.Family, _ *ring.Config) (ring.Conn, error) {
	switch {
	case kind != ring.KindDatagram && family == ring.UnixDomain:
		return 0, noUnix()
	case kind != ring.KindDatagram && !n.streams:
		return 0, noTCP()
	case family != ring.IPv4:
		return 0, &ring.FeatureError{Feature: "IPv6 over this stack", Code: "offload.no_ipv6"}
	}
	n.next++
	n.sockets[n.next] = &memorySocket{stream: kind == ring.KindStream}
	return n.next, nil
}

func (n *MemoryHost) socketOf(s *ring.Socket) *memorySocket { return n.sockets[ring.HandleOf(s).Conn] }

// Close ends a socket.
func (n *MemoryHost) Close(s *ring.Socket, _ bool) error {
	if n.socketOf(s) == nil {
		return unix.EBADF
	}
	delete(n.sockets, ring.HandleOf(s).Conn)
	return nil
}

// Bind binds a socket to an address of the host, a group or the wildcard, and to the port or, with port 0, one that is free.
func (n *MemoryHost) Bind(s *ring.Socket, local netip.AddrPort) (netip.AddrPort, error) {
	t := n.socketOf(s)
	a, ok := wire.AddrFrom(local.Addr())
	switch {
	case t == nil:
		return local, unix.EBADF
	case !ok:
		return local, unix.EAFNOSUPPORT
	case t.stream && !a.IsZero() && !n.isOwn(local.Addr()), // no group, no broadcast
		!a.IsZero() && !a.IsMulticast() && !n.hasAddress(local.Addr()):
		return local, unix.EADDRNOTAVAIL
	}
	port, e := n.choosePort(ring.HandleOf(s).Conn, t, a, local.Port())
	if e != 0 {
		return local, e
	}
	t.binding.Local, t.binding.Port, t.hasPort = a, port, true
	return netip.AddrPortFrom(a.Netip(), port), nil
}

// hasAddress reports whether the address is the host's, or a broadcast of one of its interfaces.
func (n *MemoryHost) hasAddress(a netip.Addr) bool {
	s := n.tables.Snapshot()
	if _, ok := s.Local(a); ok {
		return true
	}
	return isBroadcast(s, a)
}

// isOwn reports whether the address is the host's.
func (n *MemoryHost) isOwn(a netip.Addr) bool {
	_, ok := n.tables.Snapshot().Local(a)
	return ok
}

// The ports that are chosen: Linux's.
const (
	firstPort = 32768
	lastPort  = 60999
)

// choosePort returns port if the socket id may have it at address a, or a free one for port 0: the search starts at a random place. EADDRINUSE
// where another socket has it, or all.
func (n *MemoryHost) choosePort(id ring.Conn, t *memorySocket, a wire.Addr, port uint16) (uint16, syscall.Errno) {
	free := func(p uint16) bool {
		b := t.binding
		b.Local, b.Port = a, p
		for other, x := range n.sockets {
			if other != id && x.hasPort && x.stream == t.stream && udp.Conflict(x.binding, b) {
				return false
			}
		}
		return true
	}
	if port != 0 {
		if !free(port) {
			return 0, unix.EADDRINUSE
		}
		return port, 0
	}
	const count = lastPort - firstPort + 1
	from := n.random() % count
	for i := range uint64(count) {
		if p := uint16(firstPort + (from+i)%count); free(p) {
			return p, 0
		}
	}
	return 0, unix.EADDRINUSE
}

// Connect remembers the peer. A socket without an address gets the one that its packets will have.
func (n *MemoryHost) Connect(s *ring.Socket, remote netip.AddrPort) (netip.AddrPort, error) {
	t := n.socketOf(s)
	if t == nil {
		return netip.AddrPort{}, unix.EBADF
	}
	q := host.Query{Target: remote.Addr(), Interface: int(t.binding.Interface)}
	if !t.binding.Local.IsZero() && !t.binding.Local.IsMulticast() {
		q.Source = t.binding.Local.Netip()
	}
	w, err := n.tables.Snapshot().Route(q)
	switch {
	case err != nil:
		return netip.AddrPort{}, err
	case t.stream:
		return t.connectStream(w, remote)
	case w.Type == host.Broadcast && !t.broadcast:
		return netip.AddrPort{}, unix.EACCES
	}
	a := t.binding.Local
	if a.IsZero() {
		a, _ = wire.AddrFrom(w.Source)
	}
	if !t.hasPort {
		port, e := n.choosePort(ring.HandleOf(s).Conn, t, a, 0)
		if e != 0 {
			return netip.AddrPort{}, e
		}
		t.binding.Port, t.hasPort = port, true
	}
	t.binding.Local, t.remote = a, remote
	return netip.AddrPortFrom(a.Netip(), t.binding.Port), nil
}

// connectStream finds the address that a connection has. Unless the socket is bound, its port is chosen when the connection begins: one port
// serves many destinations. A group and a broadcast address are ENETUNREACH, as in the kernel (tcp_v4_connect). Port 0 is, too: package tcp has
// no connections to it, and there is no kernel here that could send the SYN.
func (t *memorySocket) connectStream(w host.RouteResult, remote netip.AddrPort) (netip.AddrPort, error) {
	target, ok := wire.AddrFrom(remote.Addr())
	switch {
	case !ok:
		return netip.AddrPort{}, unix.EAFNOSUPPORT
	case remote.Port() == 0 || target.IsMulticast() || w.Type == host.Broadcast:
		return netip.AddrPort{}, unix.ENETUNREACH
	}
	a := t.binding.Local
	if a.IsZero() {
		a, _ = wire.AddrFrom(w.Source)
	}
	t.remote = remote
	return netip.AddrPortFrom(a.Netip(), t.binding.Port), nil
}

// SetOption keeps the options that decide about ports and broadcasts, accepts those that the stack reads from the ring, and refuses others with
// ENOPROTOOPT.
func (n *MemoryHost) SetOption(s *ring.Socket, o ring.Option, value int) error {
	t := n.socketOf(s)
	if t == nil {
		return unix.EBADF
	}
	switch o {
	case ring.OptionPacingRate:
		if t.stream {
			return stream.NoPacing()
		}
		return unix.ENOPROTOOPT
	case ring.OptionNoDelay, ring.OptionQuickAck, ring.OptionKeepAlive, ring.OptionKeepAliveIdle, ring.OptionKeepAliveInterval,
		ring.OptionKeepAliveCount, ring.OptionUserTimeout:
		if !t.stream {
			return unix.ENOPROTOOPT
		}
	case ring.OptionReuseAddr:
		t.binding.ReuseAddr = value != 0
	case ring.OptionReusePort:
		t.binding.ReusePort = value != 0
	case ring.OptionBroadcast:
		t.broadcast = value != 0
	case ring.OptionReceiveBuffer, ring.OptionSendBuffer, ring.OptionTTL, ring.OptionTOS, ring.OptionMulticastTTL, ring.OptionMulticastLoop,
		ring.OptionMulticastAll, ring.OptionMulticastInterface:
	default:
		return unix.ENOPROTOOPT
	}
	return nil
}

// SetDevice ties a socket to an interface.
func (n *MemoryHost) SetDevice(s *ring.Socket, _ string, index int) error {
	t := n.socketOf(s)
	if t == nil {
		return unix.EBADF
	}
	t.binding.Interface = uint32(index)
	return nil
}

// SetMembership joins or leaves a group, with the kernel's errors.
func (n *MemoryHost) SetMembership(s *ring.Socket, m ring.Membership, join bool) error {
	t := n.socketOf(s)
	if t == nil {
		return unix.EBADF
	}
	index, err := groupInterface(n.tables.Snapshot(), m.Group, m.Interface)
	if err != nil {
		return err
	}
	m.Interface = index
	at := slices.Index(t.groups, m)
	same := func(g ring.Membership) bool { return g.Group == m.Group && g.Interface == index }
	member := slices.ContainsFunc(t.groups, same)
	switch {
	case join && at >= 0 && m.Source.IsValid():
		return unix.EADDRNOTAVAIL
	case join && member && !m.Source.IsValid():
		return unix.EADDRINUSE
	case join: // a source narrows a membership of all
		t.groups = slices.DeleteFunc(t.groups, func(g ring.Membership) bool { return same(g) && !g.Source.IsValid() })
		t.groups = append(t.groups, m)
	case member && !m.Source.IsValid(): // whatever its sources are
		t.groups = slices.DeleteFunc(t.groups, same)
	case at < 0:
		return unix.EADDRNOTAVAIL
	default:
		t.groups = slices.Delete(t.groups, at, at+1)
	}
	return nil
}

// groupInterface returns the index of a membership's interface: the given one if it exists, or for 0 the one of the route to the group. ENODEV:
// there is none.
func groupInterface(s *host.Snapshot, group netip.Addr, index int) (int, error) {
	if index != 0 {
		if _, ok := s.Link(index); !ok {
			return 0, unix.ENODEV
		}
		return index, nil
	}
	route, err := s.Route(host.Query{Target: group})
	if err != nil {
		return 0, unix.ENODEV
	}
	return route.Interface, nil
}

// Interface finds an interface by its name.
func (n *MemoryHost) Interface(name string) (int, error) {
	l, ok := n.tables.Snapshot().LinkByName(name)
	if !ok {
		return 0, &ring.OpError{Op: "interface " + name, Err: unix.ENODEV}
	}
	return l.Index, nil
}

// InterfaceOf is the interface that has the address.
func (n *MemoryHost) InterfaceOf(a netip.Addr) int {
	index, _ := n.tables.Snapshot().Local(a)
	return index
}

// RoutedInterface leaves groups without an interface to the driver.
func (n *MemoryHost) RoutedInterface(netip.Addr) int { return 0 }

// Drops are the driver's to count.
func (n *MemoryHost) Drops(*ring.Socket) (uint32, error) { return 0, nil }

// Send and SendVector are the driver's: its stack carries every socket.
func (n *MemoryHost) Send(*ring.Socket, []byte, netip.AddrPort) (int, syscall.Errno) {
	return 0, unix.EOPNOTSUPP
}

// SendVector is as Send.
func (n *MemoryHost) SendVector(*ring.Socket, [][]byte, netip.AddrPort) (int, syscall.Errno) {
	return 0, unix.EOPNOTSUPP
}
