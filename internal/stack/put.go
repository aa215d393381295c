package stack

import (
	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/udp"
)

// head is how long the headers are that Put writes on this route; 0 when a datagram on it has more before it than headers and a queue: no
// link, a neighbour that is not known, sockets of this stack that are to hear it, a pool without room for headers.
func (s *Stack) head(r *route) int {
	if n := r.template.Len(); r.way == wayLink && !r.loop && n <= s.pool.Layout().Headroom {
		return n
	}
	return 0
}

// Put is Send of a frame that lacks nothing but its headers: p is transmitting, in one buffer, the payload behind Way.Head bytes, and
// Way.Head is not 0. at and serial are those of the Way too. False: the way is not the same any more, or the datagram must be cut;
// nothing has happened.
func (s *Stack) Put(now clock.Time, at int32, serial uint32, p buffers.Packet) bool {
	r := &s.routes[uint32(at)%routeCount]
	frame := p.Bytes()
	if r.serial != serial || r.stamp != s.stamp || len(frame)-r.template.Len() > int(r.whole) {
		return false
	}
	s.id++
	r.template.Put(frame, s.id)
	if !r.used && !r.hop.IsZero() {
		s.use(now, r)
	}
	s.queue(int(r.link), Out{Packet: p, put: r.id + 1})
	return true
}

// disown makes what Put took of a socket that goes nobody's: the next socket may have its number.
func (s *Stack) disown(id udp.ID) {
	if s.queued == 0 {
		return
	}
	for i := range s.links {
		for j := range s.links[i].out {
			if o := &s.links[i].out[j]; o.put == id+1 {
				o.put = 0
			}
		}
	}
}

// Recall drops the frames that Put took of a socket and that still wait for their links, and tells how many.
func (s *Stack) Recall(id udp.ID) (n int) {
	for i := range s.links {
		kept := s.links[i].out[:0]
		for _, o := range s.links[i].out {
			if o.put == id+1 {
				s.giveBack(o.Packet)
				n++
			} else {
				kept = append(kept, o)
			}
		}
		s.links[i].out = kept
	}
	s.queued -= n
	return n
}
