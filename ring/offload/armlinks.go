package offload

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// The links' descriptors are in the list only for a ring that sleeps now and then. A socket that somebody waits for wakes the list for every
// frame that comes, and looks whether to wake it for every frame that was sent, under locks that both directions share: on AF_XDP in copy
// mode 50 to 250 ns a frame, most with traffic both ways (see docs/performance.md). So a ring that has had disarmAfter frames since it last
// slept, either way, takes them out, and one that goes to sleep without them puts them in again: two system calls for each link, beside
// those of a sleep.

// disarmAfter frames without a sleep tell a ring that spins from one that sleeps between messages.
const disarmAfter = 64

// armLinks puts the links' descriptors into the list before a sleep, if they are not there. On an error none is in it.
func (s *sleeper) armLinks(links []placedLink) error {
	if s.linksArmed {
		return nil
	}
	for i := range links {
		fd := links[i].Link.FD()
		if fd < 0 {
			continue // a link that is lost
		}
		// EEXIST: it is in the list already, as it should be.
		if err := s.add(fd, linkKey+uint32(i)); err != nil && !errors.Is(err, unix.EEXIST) {
			s.disarmLinks(links)
			return fmt.Errorf("offload: %w", err)
		}
	}
	s.linksArmed = true
	return nil
}

// disarmLinks takes the links' descriptors out of the list.
func (s *sleeper) disarmLinks(links []placedLink) {
	s.linksArmed = false
	for i := range links {
		s.removeLink(links[i].Link)
	}
}

// countFrames counts n frames that came or left without a sleep. In virtual time nobody waits on descriptors.
func (s *sleeper) countFrames(n int, links []placedLink) {
	if s.framesAwake += n; s.framesAwake >= disarmAfter && !s.isVirtual {
		s.disarmLinks(links)
	}
}
