package stack

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// hopSet is which neighbours routes lead to, by a hash: the others' changes cost a look at a bit. A neighbour that none leads to may be in it.
type hopSet [64]uint64

func hopBit(iface int, a wire.Addr) (word, bit uint32) {
	h := (a.Uint32() ^ uint32(iface)<<16) * 0x9e3779b1 >> 20 // of 4,096
	return h / 64, h % 64
}

func (h *hopSet) add(iface int, a wire.Addr) {
	word, bit := hopBit(iface, a)
	h[word] |= 1 << bit
}

func (h *hopSet) has(iface int, a wire.Addr) bool {
	word, bit := hopBit(iface, a)
	return h[word]>>bit&1 != 0
}

// followNeighbours takes over the changes of neighbours from number since on. Routes to a neighbour that answers otherwise now are found again when
// they are used next; all others stay as they are.
func (s *Stack) followNeighbours(since uint64) {
	list, ok := s.snap.ChangedNeighbours(since)
	var changed hopSet
	concerned := !ok
	for _, t := range list {
		if a, v4 := wire.AddrFrom(t.Addr); v4 && s.hops.has(t.Interface, a) {
			changed.add(t.Interface, a)
			concerned = true
		}
	}
	if !concerned {
		return
	}
	gone := false
	s.hops = hopSet{}
	for i := range s.routes {
		r := &s.routes[i]
		switch {
		case r.stamp != s.stamp || r.hop.IsZero():
		case (!ok || changed.has(int(r.iface), r.hop)) && s.otherwise(r):
			r.stamp, gone = 0, true
		default:
			s.hops.add(int(r.iface), r.hop)
		}
	}
	if !gone {
		return
	}
	was := s.stamp
	s.stamp++ // a holder of a route asks for it again, and gets the same but for those
	for i := range s.routes {
		if r := &s.routes[i]; r.stamp == was {
			r.stamp = s.stamp
		}
	}
}

// otherwise tells whether the neighbour of a route answers otherwise than when the route was found.
func (s *Stack) otherwise(r *route) bool {
	n, ok := s.snap.Neighbour(s.targetOf(r))
	if ok = ok && n.Usable(); r.way != wayLink {
		return ok
	}
	return !ok || n.MAC != r.template.Target()
}

// follow takes over what the host says of the links' interfaces, which changes while frames flow: ip link set mtu, ip link set address.
//
// The MTU is never more than a link was opened with: its buffers and its program were made for that.
func (s *Stack) follow() {
	for i := range s.links {
		l := &s.links[i]
		if l.most == 0 {
			l.most = l.MTU
		}
		h, ok := s.snap.Link(l.Index)
		if !ok {
			continue
		}
		if h.MTU >= leastMTU {
			l.MTU = min(h.MTU, l.most)
		}
		if !l.Chosen && !h.MAC.IsZero() && !h.MAC.IsGroup() {
			l.MAC = h.MAC
		}
	}
}

// leastMTU is the smallest that IPv4 allows (RFC 791).
const leastMTU = 68

// askForWaited asks again for the neighbours that datagrams wait for, once a second (RFC 1122 section 2.3.2.1): the first request may have
// been one too many in its second, or the interface was down.
func (s *Stack) askForWaited(now clock.Time) {
	if s.waiting.Len() > 0 && now >= s.askAt {
		s.askAt = now + askAgain
		s.waiting.Targets(s.host.Resolve)
	}
}
