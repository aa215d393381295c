package xtreme

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload"
)

// MoveToKernel has a TCP connection of our own stack go on in the kernel, before its interface is given to another program, say. It moves in one
// of the next Polls, and EventPath tells: the path then has the reason tcp.moved, or tcp.not_moved if it could not move. The order of its data,
// its user data, queues and deadlines stay. It remains in the kernel until MoveToStack. Errors: EINVAL for a socket that is no connection of our
// own stack on this poller's offloaded ring. Owner only.
func (p *Poller) MoveToKernel(s *Socket) error {
	return p.moveStream("MoveToKernel", s, offload.MoveToKernel)
}

// MoveToStack has a connection that was moved into the kernel, on request or because its interface was lost, go on in our own stack: as
// MoveToKernel. Errors: EINVAL for a connection that our own stack never had, or has.
func (p *Poller) MoveToStack(s *Socket) error {
	return p.moveStream("MoveToStack", s, offload.MoveToStack)
}

func (p *Poller) moveStream(call string, s *Socket, move func(ring.Driver, *ring.Socket) error) error {
	err := p.mayUse()
	switch {
	case err != nil:
	case s == nil:
		err = fmt.Errorf("socket nil: %w", unix.EINVAL)
	case p.offloaded == nil || p.offloaded.set.Load() == nil:
		err = fmt.Errorf("the poller has no offloaded ring: %w", unix.EINVAL)
	case !p.hasOffloaded(s):
		err = fmt.Errorf("the socket is not on the poller's offloaded ring: %w", unix.EINVAL)
	default:
		err = move(p.offloaded.driver, s)
	}
	if err != nil {
		return fmt.Errorf("xtreme: %s: %w", call, err)
	}
	return nil
}

// hasOffloaded reports whether a socket is on the poller's offloaded ring.
func (p *Poller) hasOffloaded(s *Socket) bool {
	r := s.Ring()
	return r != nil && slices.Contains(p.offloaded.rings(), r)
}
