package udp

import (
	"encoding/binary"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// WarmSend is Prepare and SendSlow without sending: the route is found, the headers are written in front of p's payload, and that is all. No
// identification is used up, no neighbour is asked for or kept alive, nothing is looped, queued or counted. p stays the caller's. EAGAIN:
// the neighbour is not known.
func (u *Protocol) WarmSend(id ID, to wire.Addr, port uint16, p buffers.Packet) (Prepared, ip.Errno) {
	i := u.findDestination(id, to, port)
	x, n := &u.destinations[i], p.Len()
	switch {
	case x.errno != 0:
		return Prepared{}, x.errno
	case n > u.limit(x):
		return Prepared{}, ip.EMSGSIZE
	}
	r := Prepared{Route: i, Serial: x.serial, Head: u.fastHead(x), Limit: u.limit(x),
		Kernel: x.route.Kind == ip.RouteViaKernel || n > int(x.whole) && !x.route.FragmentsHere}
	switch {
	case r.Kernel, x.route.Kind == ip.RouteLocal, n > int(x.whole):
		return r, 0
	case x.route.Kind == ip.RouteAwaitsNeighbour:
		return Prepared{}, ip.EAGAIN
	}
	if _, err := p.Push(x.headLen()); err != nil {
		return Prepared{}, ip.ENOBUFS
	}
	x.head.PutDatagram(&x.route.Header, p.Bytes(), u.stack.PeekID())
	return r, 0
}

// Header writes the headers of a destination to dst; fields that differ from packet to packet are zero. n is their length, also when dst is
// too short (ENOBUFS) or nil. ENOTCONN: the neighbour is not known. EOPNOTSUPP: no link carries datagrams to the destination.
func (u *Protocol) Header(id ID, to wire.Addr, port uint16, dst []byte) (n int, e ip.Errno) {
	x := &u.destinations[u.findDestination(id, to, port)]
	switch {
	case x.errno != 0:
		return 0, x.errno
	case x.route.Kind == ip.RouteAwaitsNeighbour:
		return 0, ip.ENOTCONN
	case x.route.Kind != ip.RouteOverLink:
		return 0, ip.EOPNOTSUPP
	}
	n = x.headLen()
	switch {
	case dst == nil:
		return n, 0
	case len(dst) < n:
		return n, ip.ENOBUFS
	}
	x.head.PutDatagram(&x.route.Header, dst[:n], 0)
	h := dst[n-wire.IPv4Len-wire.UDPLen : n]
	binary.BigEndian.PutUint16(h[2:], 0)              // total length
	binary.BigEndian.PutUint16(h[10:], 0)             // sum
	binary.BigEndian.PutUint32(h[wire.IPv4Len+4:], 0) // UDP length and sum
	return n, 0
}
