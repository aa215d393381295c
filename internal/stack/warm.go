package stack

import (
	"encoding/binary"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/udp"
)

// Warm is Prepare and Send without sending: the route is found, the headers are written in front of p's payload, and that is all. No
// identification is used up, no neighbour is asked for or kept alive, nothing is looped, queued or counted. p stays the caller's. EAGAIN:
// the neighbour is not known.
func (s *Stack) Warm(now clock.Time, id udp.ID, to wire.Addr, port uint16, p buffers.Packet) (Way, syscall.Errno) {
	r, i := s.peek(now, id, to, port)
	n := p.Len()
	switch {
	case r.way == wayError:
		return Way{}, r.errno
	case n > int(r.limit):
		return Way{}, unix.EMSGSIZE
	}
	w := Way{Route: i, Serial: r.serial, Head: s.head(r), Limit: int(r.limit), Kernel: r.way == wayKernel || n > int(r.whole) && !r.parts}
	switch {
	case w.Kernel, r.way == wayLoop, n > int(r.whole):
		return w, 0
	case r.way == wayWait:
		return Way{}, unix.EAGAIN
	}
	if _, err := p.Push(r.template.Len()); err != nil {
		return Way{}, unix.ENOBUFS
	}
	r.template.Put(p.Bytes(), s.id+1) // the one that the next packet will have
	return w, 0
}

// Header writes the headers of a route to dst, zero where packets differ. n is their length, also when dst is too short. ENOTCONN: the
// neighbour is not known. EOPNOTSUPP: no link carries what goes there, so that no headers are made.
func (s *Stack) Header(now clock.Time, id udp.ID, to wire.Addr, port uint16, dst []byte) (n int, e syscall.Errno) {
	r, _ := s.peek(now, id, to, port)
	switch r.way {
	case wayError:
		return 0, r.errno
	case wayLink:
	case wayWait:
		return 0, unix.ENOTCONN
	default:
		return 0, unix.EOPNOTSUPP
	}
	n = r.template.Len()
	switch {
	case dst == nil:
		return n, 0
	case len(dst) < n:
		return n, unix.ENOBUFS
	}
	r.template.Put(dst[:n], 0)
	ip := dst[n-wire.IPv4Len-wire.UDPLen : n]
	binary.BigEndian.PutUint16(ip[2:], 0)              // total length
	binary.BigEndian.PutUint16(ip[10:], 0)             // sum
	binary.BigEndian.PutUint32(ip[wire.IPv4Len+4:], 0) // UDP length and sum
	return n, 0
}

// peek is the route of a destination, found if it is not in its place, without asking for its neighbour.
func (s *Stack) peek(now clock.Time, id udp.ID, to wire.Addr, port uint16) (*route, int32) {
	s.now = now
	i := s.place(id, to, port)
	r := &s.routes[i]
	if r.stamp != s.stamp || r.id != id || r.to != to || r.port != port {
		s.made++
		s.stats.Prepared++
		*r = route{id: id, to: to, port: port, stamp: s.stamp, serial: s.made}
		if r.errno = s.find(r); r.errno != 0 {
			r.way = wayError
		}
	}
	return r, i
}
