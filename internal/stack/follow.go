package stack

import "github.com/socketxtreme/socketxtreme/internal/clock"

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
