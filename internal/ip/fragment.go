package ip

import (
	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// SendFragments sends a packet that is longer than the route's MTU in fragments (RFC 791 section 3.2), each a copy in a buffer of its own:
// all or none. payload is what is behind the IPv4 header, complete with the protocol's own. False: there were not enough buffers.
//
// Packets that fit leave with DF set, so that their identification means nothing (RFC 6864) and a router that would have to fragment them
// says so (RFC 1191): what it says lowers the size beyond which this function fragments. The fragments leave without DF and with one
// identification, a counter of the stack over all destinations: it repeats after 65,536 packets, so at high rates a receiver that loses
// fragments may join those of two packets, which the transport's checksum then catches, all but one time in 65,536 (RFC 4963).
func (s *Stack) SendFragments(now clock.Time, r *Route, payload []byte) bool {
	size := (int(r.MTU) - wire.IPv4Len) &^ 7 // RFC 791: offsets count in units of eight bytes
	s.id++
	s.parts = s.parts[:0]
	for at := 0; at < len(payload); at += size {
		part := payload[at:min(at+size, len(payload))]
		f, ok := s.fragment(part, r, wire.Fragment(at, at+size < len(payload)))
		if !ok {
			break
		}
		s.parts = append(s.parts, f)
	}
	if len(s.parts)*size < len(payload) {
		for _, f := range s.parts {
			s.pool.FreeTransmit(f)
		}
		s.stats.NoBuffer++
		return false
	}
	s.stats.Fragmented++
	for _, f := range s.parts {
		s.SendFrame(now, r, f, noToken)
	}
	return true
}

// fragment is one fragment as a frame.
func (s *Stack) fragment(b []byte, r *Route, field uint16) (buffers.Packet, bool) {
	f, err := s.pool.Alloc(len(b))
	if err != nil {
		return f, false
	}
	copy(f.Room(), b)
	if f, err = s.pool.Transmit(f); err != nil {
		return f, false // cannot be: it was just made
	}
	if _, err := f.Push(r.Header.Len()); err != nil {
		s.pool.FreeTransmit(f)
		return f, false
	}
	r.Header.Put(f.Bytes(), s.id, field)
	return f, true
}
