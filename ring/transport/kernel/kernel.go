package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// Transport is the kernel, for the sockets of one ring.Set. Make it with New; it must not be copied.
type Transport struct {
	address    sys.Sockaddr // of the call that is being made
	message    sys.Message  // for sends of several pieces
	reports    sys.ErrorQueue
	interfaces map[netip.Addr]int // index of the interface that has the address; nil before the first question
}

// What the kernel alone can do.
var (
	_ ring.Transport     = (*Transport)(nil)
	_ ring.UnixTransport = (*Transport)(nil)
	_ ring.Adopter       = (*Transport)(nil)
	_ ring.FileSender    = (*Transport)(nil)
	_ ring.SendReporter  = (*Transport)(nil)
	_ ring.DropReporter  = (*Transport)(nil)
	_ ring.Prober        = (*Transport)(nil)
)

// New makes the transport of one set.
func New() *Transport { return &Transport{} }

// FD is the socket's descriptor.
func FD(s *ring.Socket) int { return int(ring.HandleOf(s).Conn) }

// domain is the address family as socket(2) has it.
func domain(f ring.Family) int {
	switch f {
	case ring.IPv6:
		return unix.AF_INET6
	case ring.UnixDomain:
		return unix.AF_UNIX
	}
	return unix.AF_INET
}

// Open makes a socket that does not block and that child processes do not inherit.
func (t *Transport) Open(kind ring.SocketKind, family ring.Family, _ *ring.Config) (ring.Conn, error) {
	typ := unix.SOCK_STREAM
	if kind == ring.KindDatagram {
		typ = unix.SOCK_DGRAM
	}
	fd, err := unix.Socket(domain(family), typ|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		socketDescriptors.add(fd)
	}
	return ring.Conn(fd), err
}

// Bind binds the socket. A datagram socket is asked for what its Config wants to know of each datagram.
func (t *Transport) Bind(s *ring.Socket, local netip.AddrPort) (netip.AddrPort, error) {
	if err := t.address.Set(local, domain(s.Family())); err != nil {
		return local, err
	}
	if ring.HandleOf(s).Kind == ring.KindDatagram {
		if err := t.askControl(s, local.Addr()); err != nil {
			return local, err
		}
	}
	if e := sys.Bind(FD(s), &t.address); e != 0 {
		return local, e
	}
	return sys.SockName(FD(s)), nil
}

// Listen is listen(2).
func (t *Transport) Listen(s *ring.Socket, backlog int) (netip.AddrPort, error) {
	if err := unix.Listen(FD(s), backlog); err != nil {
		return netip.AddrPort{}, err
	}
	return sys.SockName(FD(s)), nil
}

// Connect is connect(2). The driver finds out how the connecting of a stream ends, and calls Writable.
func (t *Transport) Connect(s *ring.Socket, remote netip.AddrPort) (netip.AddrPort, error) {
	if err := t.address.Set(remote, domain(s.Family())); err != nil {
		return netip.AddrPort{}, err
	}
	h, c := ring.HandleOf(s), ring.ConfigOf(s)
	// A bound socket has its ring, and Bind has asked. PktInfo: an earlier call, which failed, has. The local address, which the kernel
	// chooses now, is definite: the peer's stands for it.
	if h.Kind == ring.KindDatagram && (c.Timestamps || c.TxTimestamps || c.PacketInfo || c.ReportDrops) && s.Ring() == nil && !h.PktInfo {
		if err := t.askControl(s, remote.Addr()); err != nil {
			return netip.AddrPort{}, err
		}
	}
	if e := sys.Connect(FD(s), &t.address); e != 0 && e != unix.EINPROGRESS {
		return netip.AddrPort{}, e
	}
	return sys.SockName(FD(s)), nil
}

// Accept is called for a child that its listener's ring has made a socket of. It returns the child's address: its listener's, when that is
// definite.
func (t *Transport) Accept(s, listener *ring.Socket) netip.AddrPort {
	socketDescriptors.add(FD(s))
	if local := listener.LocalAddr(); !local.Addr().IsUnspecified() {
		return local
	}
	return sys.SockName(FD(s))
}

// Refuse resets a connection of which no socket is made; a unix-domain one is closed.
func (t *Transport) Refuse(c ring.Conn) {
	socketDescriptors.remove(int(c)) // a child that no ring has taken
	sys.Reset(int(c))
}

// CloseWrite is shutdown(2) of the sending half. That the connection is no more is no error: reading tells.
func (t *Transport) CloseWrite(s *ring.Socket) error {
	if err := unix.Shutdown(FD(s), unix.SHUT_WR); err != nil && err != unix.ENOTCONN {
		return err
	}
	return nil
}

// Close closes the descriptor.
func (t *Transport) Close(s *ring.Socket, reset bool) error {
	h := ring.HandleOf(s)
	if h.Kind == ring.KindStream {
		if reset {
			sys.SetReset(FD(s))
		}
		if !h.Ended { // at the end of the stream nothing is unread
			discard(s)
		}
	}
	socketDescriptors.remove(FD(s)) // before another socket can have the number
	if err := unix.Close(FD(s)); err != nil {
		return fmt.Errorf("descriptor %d: %w", FD(s), err)
	}
	return nil
}

// Release closes the descriptor of a socket that is gone already: a connection of our own TCP keeps its port until then.
func (t *Transport) Release(c ring.Conn) error {
	socketDescriptors.remove(int(c))
	return unix.Close(int(c))
}

// discard reads and drops what was not read. close(2) with unread data sends a reset, which may overtake our last data (RFC 1122 section
// 4.2.2.13): the peer would lose data that it still wants to read. A peer that goes on sending is reset after 16 MiB.
func discard(s *ring.Socket) {
	call := sys.Discard
	if s.Unix() {
		call = sys.DiscardUnix // there the peer is told ECONNRESET
	}
	for range 16 {
		if n, e := call(FD(s), 1<<20); n <= 0 || e != 0 {
			return
		}
	}
}

// errnoOf is the errno that an error wraps, EINVAL if it wraps none.
func errnoOf(err error) syscall.Errno {
	var e syscall.Errno
	if errors.As(err, &e) {
		return e
	}
	return unix.EINVAL
}
