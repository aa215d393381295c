package ip

import (
	"slices"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// pathMTU is what an ICMP message said of the path to an address (RFC 1191).
type pathMTU struct {
	to    wire.Addr
	mtu   int
	until clock.Time
}

const (
	pathMTULimit = 64 // addresses; a new one replaces the latest, so that a flood of messages displaces one
	// pathMTUTime is when the larger size is tried again (RFC 1191 section 6.3: ten minutes).
	pathMTUTime  = clock.Time(600e9)
	leastPathMTU = 552 // what Linux believes at the least: net.ipv4.route.min_pmtu
)

// pathMTU is the MTU of the path to an address that an ICMP message has reported, else the largest possible.
func (s *Stack) pathMTU(to wire.Addr) int {
	for i := range s.pathMTUs {
		if s.pathMTUs[i].to == to {
			return s.pathMTUs[i].mtu
		}
	}
	return wire.IPv4Max
}

// lowerPathMTU notes that packets to an address may be no longer than this. A message never makes the size larger (RFC 1191 section 3):
// time does, see forgetPathMTUs.
func (s *Stack) lowerPathMTU(now clock.Time, to wire.Addr, mtu int) {
	n := 0
	for _, p := range s.pathMTUs {
		if p.to == to {
			mtu = min(mtu, p.mtu)
			continue
		}
		s.pathMTUs[n] = p
		n++
	}
	s.pathMTUs = s.pathMTUs[:min(n, pathMTULimit-1)]
	s.pathMTUs = append(s.pathMTUs, pathMTU{to: to, mtu: max(mtu, leastPathMTU), until: now + pathMTUTime})
	s.markRoutesStale()
	s.notify(Change{Kind: PathMTUChanged, Addr: to})
}

// forgetPathMTUs tries the larger size again where the time has come.
func (s *Stack) forgetPathMTUs(now clock.Time) {
	for {
		i := slices.IndexFunc(s.pathMTUs, func(p pathMTU) bool { return now >= p.until })
		if i < 0 {
			return
		}
		to := s.pathMTUs[i].to
		s.pathMTUs = slices.Delete(s.pathMTUs, i, i+1)
		s.markRoutesStale()
		s.notify(Change{Kind: PathMTUChanged, Addr: to})
	}
}

// pathMTUDeadline is when forgetPathMTUs has something to do.
func (s *Stack) pathMTUDeadline() clock.Time {
	next := clock.Never
	for i := range s.pathMTUs {
		next = min(next, s.pathMTUs[i].until)
	}
	return next
}
