package xtreme

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/ring"
)

// KernelOnly leaves a socket to the kernel's stack, on an owner of kind offload too; its path says so. With RequireOffload beside it
// nothing is left, and that is an error.
func KernelOnly() Option {
	return option("KernelOnly", forSocket, func(c *options) { c.socket.KernelOnly = true })
}

// SetOffload says whether sockets made from now on may be offloaded: an owner of kind offload begins with true. Those that have their ring
// stay where they are. On an owner of another kind true is ErrNotSupported. Owner only, or anyone before the first Poll. (VMA:
// thread_offload, whose answer the next thread with the same number inherits.)
func (o *Owner) SetOffload(on bool) error {
	if err := o.check(); err != nil {
		return fmt.Errorf("xtreme: owner %q: set offload: %w", o.name, err)
	}
	if rings := o.Rings(); len(rings) > 0 {
		if err := rings[0].Check(); err != nil {
			return fmt.Errorf("xtreme: owner %q: set offload: %w", o.name, err)
		}
	}
	if on && o.off == nil {
		return fmt.Errorf("xtreme: owner %q: set offload: %w", o.name,
			&ring.FeatureError{Feature: "offloading on an owner whose kind of ring is the kernel's", Code: "offload.not_asked"})
	}
	o.declined = !on
	return nil
}

// declines is why a socket is left to the kernel by its own wish or its owner's; nil when it is not.
func (o *Owner) declines(s *Socket) []ring.Reason {
	switch {
	case s.Config().KernelOnly:
		return []ring.Reason{{Code: "offload.declined", Text: "the socket was opened for the kernel"}}
	case o.declined && s.Ring() == nil:
		return []ring.Reason{{Code: "offload.declined", Text: "the owner leaves new sockets to the kernel for now"}}
	}
	return nil
}
