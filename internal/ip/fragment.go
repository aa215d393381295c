package ip

import (
	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// FragmentRoom says whether there are buffers for the fragments of a packet.
type FragmentRoom uint8

// The results of Stack.FragmentRoom.
const (
	FragmentsFit   FragmentRoom = iota
	FragmentsWait               // too few buffers are free at the moment
	FragmentsNever              // it takes more than there are beside those that lie ready for receiving
)

// FragmentRoom says whether SendFragments finds buffers for a payload of n bytes. The packet itself has one too.
func (s *Stack) FragmentRoom(r *Route, n int) FragmentRoom {
	size := fragmentSize(r)
	needed := (n + size - 1) / size
	layout, free, most := s.pool.Layout(), 0, 0
	if size <= layout.SmallSize {
		free = s.pool.Free(buffers.Small)
		most = layout.SmallCount - (s.pool.Available(buffers.Small) - free)
	}
	large := s.pool.Free(buffers.Large)
	most += layout.LargeCount - (s.pool.Available(buffers.Large) - large)
	switch {
	case needed <= free+large:
		return FragmentsFit
	case needed < most:
		return FragmentsWait
	}
	return FragmentsNever
}

// fragmentSize is how many bytes of payload a fragment has: offsets count in units of eight bytes (RFC 791).
func fragmentSize(r *Route) int { return (int(r.MTU) - wire.IPv4Len) &^ 7 }

// SendFragments sends a packet that is longer than the route's MTU in fragments (RFC 791 section 3.2), each a copy in a buffer of its own:
// all or none. payload is what is behind the IPv4 header, complete with the protocol's own. False: there were not enough buffers, see
// FragmentRoom.
//
// Packets that fit leave with DF set, so that their identification means nothing (RFC 6864) and a router that would have to fragment them
// says so (RFC 1191): what it says lowers the size beyond which this function fragments. The fragments leave without DF and with one
// identification, a counter of the stack over all destinations: it repeats after 65,536 packets, so at high rates a receiver that loses
// fragments may join those of two packets, which the transport's checksum then catches, all but one time in 65,536 (RFC 4963).
func (s *Stack) SendFragments(now clock.Time, r *Route, payload []byte) bool {
	size := fragmentSize(r)
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
