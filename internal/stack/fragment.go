package stack

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// fragment sends a datagram that is longer than the MTU in parts (RFC 791 section 3.2), each a copy in a buffer of its own: all or none. p
// is the payload and stays the caller's.
//
// Datagrams that fit leave with DF set, so that their identification means nothing (RFC 6864) and a router that would have to cut them says
// so (RFC 1191): what it says lowers the size beyond which this function cuts. The parts leave without DF and with one identification, a
// counter of the stack over all destinations: it repeats after 65,536 datagrams, so at high rates a receiver that loses parts may join
// those of two datagrams, which the UDP checksum then catches, all but one time in 65,536 (RFC 4963).
func (s *Stack) fragment(now clock.Time, r *route, p buffers.Packet) (Verdict, syscall.Errno) {
	if _, err := p.Push(wire.UDPLen); err != nil {
		return Refused, unix.ENOBUFS // less headroom than headers: a packet that had been pushed to before
	}
	datagram := p.Bytes()
	r.template.PutTransport(datagram, wire.Sum(0).Add(datagram[wire.UDPLen:]))
	size := (int(r.whole) + wire.UDPLen) &^ 7 // RFC 791: offsets count in units of eight bytes
	s.id++
	s.parts = s.parts[:0]
	for at := 0; at < len(datagram); at += size {
		part := datagram[at:min(at+size, len(datagram))]
		f, ok := s.part(part, r, wire.Fragment(at, at+size < len(datagram)))
		if !ok {
			break
		}
		s.parts = append(s.parts, f)
	}
	whole := len(s.parts)*size >= len(datagram)
	_ = p.Pull(wire.UDPLen) // it was pushed here
	if !whole {
		for _, f := range s.parts {
			s.giveBack(f)
		}
		s.stats.NoBuffer++
		return Refused, unix.ENOBUFS
	}
	s.stats.Fragmented++
	for _, f := range s.parts {
		s.leave(now, r, f, 0)
	}
	return Kept, 0
}

// part is one fragment as a frame.
func (s *Stack) part(b []byte, r *route, field uint16) (buffers.Packet, bool) {
	f, err := s.pool.Alloc(len(b))
	if err != nil {
		return f, false
	}
	copy(f.Room(), b)
	if f, err = s.pool.Transmit(f); err != nil {
		return f, false // cannot be: it was just made
	}
	if _, err := f.Push(r.template.IPv4Template.Len()); err != nil {
		s.giveBack(f)
		return f, false
	}
	r.template.IPv4Template.Put(f.Bytes(), s.id, field)
	return f, true
}
