package kernel

import (
	"net/netip"
	"syscall"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// Send is send(2), or sendto(2) when there is an address: for small messages the fastest way on every kernel ring (UDP ping-pong 4.18 µs
// against 4.33 through an io_uring entry).
func (t *Transport) Send(s *ring.Socket, b []byte, to netip.AddrPort) (int, syscall.Errno) {
	if !to.IsValid() {
		return sys.Send(FD(s), b, 0)
	}
	if err := t.address.Set(to, domain(s.Family())); err != nil {
		return 0, errnoOf(err)
	}
	return sys.SendTo(FD(s), b, &t.address)
}

// SendVector is sendmsg(2).
func (t *Transport) SendVector(s *ring.Socket, bufs [][]byte, to netip.AddrPort) (int, syscall.Errno) {
	if !to.IsValid() {
		return t.message.Sendv(FD(s), bufs, nil)
	}
	if err := t.address.Set(to, domain(s.Family())); err != nil {
		return 0, errnoOf(err)
	}
	return t.message.Sendv(FD(s), bufs, &t.address)
}

// Probe lets the kernel walk the first part of a send, up to the route (MSG_PROBE). A connected socket has the route in it, and sends without an
// address.
func (t *Transport) Probe(s *ring.Socket, b []byte, to netip.AddrPort) syscall.Errno {
	if to == s.RemoteAddr() {
		return sys.Probe(FD(s), b, nil)
	}
	if err := t.address.Set(to, domain(s.Family())); err != nil {
		return errnoOf(err)
	}
	return sys.Probe(FD(s), b, &t.address)
}
