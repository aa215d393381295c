package stack

import (
	"net/netip"
	"syscall"

	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
)

// Probe is Send, but for the queues: it takes a buffer, copies b, finds the route, writes the headers, and gives the buffer back. EAGAIN: the
// neighbour is not known, or there is no buffer. A datagram that only the transport below can deliver is probed there.
func (t *Transport) Probe(s *ring.Socket, b []byte, to netip.AddrPort) syscall.Errno {
	x, a, e := t.target(s, to)
	if e != 0 {
		return e
	}
	const headroom = 0 // WarmSend pushes the headers itself, as the send of a queued datagram does
	p, room := t.pool.AllocTransmit(headroom, len(b))
	if p.IsZero() {
		return syscall.EAGAIN
	}
	copy(room, b)
	route, e := t.udp.WarmSend(x.id, a, to.Port(), p)
	t.pool.FreeTransmit(p)
	if e != 0 || !route.Kernel {
		return e
	}
	if below, ok := t.Transport.(ring.Prober); ok {
		return below.Probe(s, b, to)
	}
	return 0 // the part of the path that is here is warm
}

// Header writes the headers of a datagram to a destination to dst; see ring.StackTransport.
func (t *Transport) Header(s *ring.Socket, to netip.AddrPort, dst []byte) (int, syscall.Errno) {
	x, a, e := t.target(s, to)
	if e != 0 {
		return 0, e
	}
	return t.udp.Header(x.id, a, to.Port(), dst)
}

// target is the socket and the address as the stack knows them, its tables as fresh as for a send.
func (t *Transport) target(s *ring.Socket, to netip.AddrPort) (*socket, wire.Addr, syscall.Errno) {
	x := t.of(s)
	if x == nil {
		return nil, wire.Addr{}, syscall.EINVAL
	}
	a, ok := wire.AddrFrom(to.Addr())
	if !ok {
		return nil, wire.Addr{}, syscall.EAFNOSUPPORT
	}
	t.ip.Refresh()
	return x, a, 0
}
