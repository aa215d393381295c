package offload

import (
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
)

var _ ring.Warmer = (*driver)(nil)

// Warm walks a send up to the link.
func (d *driver) Warm(s *ring.Socket, to netip.AddrPort, p buffers.Packet) (w ring.Way, errno syscall.Errno) {
	e, a, errno := d.target(s, to)
	if errno != 0 {
		return w, errno
	}
	way, errno := d.udp.WarmSend(e.id, a, to.Port(), p)
	return ring.Way(way), errno
}

// Header is the headers of a destination.
func (d *driver) Header(s *ring.Socket, to netip.AddrPort, dst []byte) (int, syscall.Errno) {
	e, a, errno := d.target(s, to)
	if errno != 0 {
		return 0, errno
	}
	return d.udp.Header(e.id, a, to.Port(), dst)
}

// target is the socket and the address as the stack knows them, its tables as fresh as for a send.
func (d *driver) target(s *ring.Socket, to netip.AddrPort) (*entry, wire.Addr, syscall.Errno) {
	e := d.table.of(s)
	if e == nil || !e.own {
		return nil, wire.Addr{}, unix.EINVAL
	}
	a, ok := wire.AddrFrom(to.Addr())
	if !ok {
		return nil, wire.Addr{}, unix.EAFNOSUPPORT
	}
	d.ip.Refresh()
	return e, a, 0
}
