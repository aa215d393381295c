package ip

import (
	"golang.org/x/sys/unix"

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
func (s *Stack) FragmentRoom(r *Route, n int) FragmentRoom { return s.fragmentRoom(r.MTU, n) }

func (s *Stack) fragmentRoom(mtu int32, n int) FragmentRoom {
	size := fragmentSize(mtu)
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
func fragmentSize(mtu int32) int { return (int(mtu) - wire.IPv4Len) &^ 7 }

// SendFragments sends a packet that is longer than the route's MTU in fragments (RFC 791 section 3.2), each a copy in a buffer of its own:
// all or none. p is what is behind the IPv4 header, complete with the protocol's own. False: there were not enough buffers, see FragmentRoom,
// and p is the caller's. Otherwise the stack has p:
//
//	token    p                                                        each fragment
//	0        the stack frees it                                       has no token
//	other    stays as it is until the token has been given back       has the token, which is given back as often as Config.Cut says
//
// While the neighbour is not known the packet waits in one piece, as one frame does: given up then, it is one Failure.
//
// Packets that fit leave with DF set, so that their identification means nothing (RFC 6864) and a router that would have to fragment them
// says so (RFC 1191): what it says lowers the size beyond which this function fragments. The fragments leave without DF and with one
// identification, a counter of the stack over all destinations: it repeats after 65,536 packets, so at high rates a receiver that loses
// fragments may join those of two packets, which the transport's checksum then catches, all but one time in 65,536 (RFC 4963).
func (s *Stack) SendFragments(now clock.Time, r *Route, p buffers.Packet, token uint64) bool {
	if r.Kind == RouteAwaitsNeighbour {
		s.await(now, r, waitingFrame{packet: p, token: token, link: r.link, uncut: &uncut{r.Header, r.MTU}})
		return true
	}
	if !s.cut(&r.Header, r.MTU, p.Bytes(), token) {
		return false
	}
	for _, f := range s.parts {
		s.QueueFrame(now, r, Out{Packet: f, Token: token}, noSender)
	}
	s.freeCut(p, token)
	return true
}

// uncut is what a packet is cut by that waits for its neighbour in one piece.
type uncut struct {
	header wire.IPv4Template
	mtu    int32
}

// sendResolvedUncut cuts a packet whose neighbour is known now, and queues its fragments for link i. False: too few buffers are free now.
func (s *Stack) sendResolvedUncut(i int, w waitingFrame, station wire.MAC) bool {
	mtu := min(w.uncut.mtu, int32(s.links[i].MTU)) // another link's, or it has become less
	b := w.packet.Bytes()
	switch s.fragmentRoom(mtu, len(b)) {
	case FragmentsNever:
		s.loseFrame(w.packet, w.token, unix.EMSGSIZE)
		return true
	case FragmentsWait:
		s.awaitsBuffers = true
		return false
	}
	if !s.cut(&w.uncut.header, mtu, b, w.token) {
		s.stats.NoBuffer++
		s.failFrame(w.packet, w.token, unix.ENOBUFS)
		return true
	}
	for _, f := range s.parts {
		copy(f.Bytes(), station[:]) // the Ethernet header begins with the target
		s.queue(i, Out{Packet: f, Token: w.token}, noSender)
	}
	s.freeCut(w.packet, w.token)
	return true
}

// cut makes the fragments of a packet: all, in Stack.parts, or none. The caller counts a packet that was not cut.
func (s *Stack) cut(h *wire.IPv4Template, mtu int32, payload []byte, token uint64) bool {
	size := fragmentSize(mtu)
	s.id++
	s.parts = s.parts[:0]
	for at := 0; at < len(payload); at += size {
		part := payload[at:min(at+size, len(payload))]
		f, ok := s.fragment(part, h, wire.Fragment(at, at+size < len(payload)))
		if !ok {
			break
		}
		s.parts = append(s.parts, f)
	}
	if len(s.parts)*size < len(payload) {
		for _, f := range s.parts {
			s.pool.FreeTransmit(f)
		}
		return false
	}
	s.stats.Fragmented++
	if token != noToken && s.config.Cut != nil {
		s.config.Cut(token, len(s.parts))
	}
	return true
}

// freeCut frees a packet that has left in fragments, unless its sender waits for them.
func (s *Stack) freeCut(p buffers.Packet, token uint64) {
	if token == noToken {
		s.pool.FreeTransmit(p)
	}
}

// fragment is one fragment as a frame.
func (s *Stack) fragment(b []byte, h *wire.IPv4Template, field uint16) (buffers.Packet, bool) {
	f, err := s.pool.Alloc(len(b))
	if err != nil {
		return f, false
	}
	copy(f.Room(), b)
	if f, err = s.pool.Transmit(f); err != nil {
		return f, false // cannot be: it was just made
	}
	if _, err := f.Push(h.Len()); err != nil {
		s.pool.FreeTransmit(f)
		return f, false
	}
	h.Put(f.Bytes(), s.id, field)
	return f, true
}
