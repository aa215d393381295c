package extraapi

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Offload is an Option of one socket: true requires an offloaded path and is an error with the reasons where there is none; false leaves
// the socket to the kernel. It comes before ThreadOffload and the setting VMA_OFFLOADED_SOCKETS, not before a rule. Without it the poller, the
// setting, the rules and what is possible decide.
func Offload(on bool) xtreme.Option {
	if on {
		return xtreme.RequireOffload()
	}
	return xtreme.KernelOnly()
}

// ThreadOffload says whether sockets that a poller makes from now on may be offloaded; a poller is to its goroutine what VMA's thread is to
// its sockets, and each loop of a reactor has one. It comes before the setting: with VMA_OFFLOADED_SOCKETS=0 the sockets of this poller are
// offloaded all the same after true. On a poller whose rings are the kernel's, on is ErrNotSupported. (VMA: thread_offload.)
func ThreadOffload(p *xtreme.Poller, on bool) error {
	if p == nil {
		return fmt.Errorf("extraapi: ThreadOffload: owner is nil: %w", unix.EINVAL)
	}
	if err := p.SetOffload(on); err != nil {
		return fmt.Errorf("extraapi: ThreadOffload: %w", err)
	}
	return nil
}
