package extraapi

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Offload is an Option of one socket: true requires an offloaded path and is an error with the reasons where there is none; false leaves
// the socket to the kernel. It comes before ThreadOffload and the setting VMA_OFFLOADED_SOCKETS, not before a rule. Without it the owner, the
// setting, the rules and what is possible decide.
func Offload(on bool) xtreme.Option {
	if on {
		return xtreme.RequireOffload()
	}
	return xtreme.KernelOnly()
}

// ThreadOffload says whether sockets that an owner makes from now on may be offloaded; an owner is to its goroutine what VMA's thread is to
// its sockets, and each loop of a reactor has one. It comes before the setting: with VMA_OFFLOADED_SOCKETS=0 the sockets of this owner are
// offloaded all the same after true. On an owner whose rings are the kernel's, on is ErrNotSupported. (VMA: thread_offload.)
func ThreadOffload(o *xtreme.Owner, on bool) error {
	if o == nil {
		return fmt.Errorf("extraapi: ThreadOffload: owner is nil: %w", unix.EINVAL)
	}
	if err := o.SetOffload(on); err != nil {
		return fmt.Errorf("extraapi: ThreadOffload: %w", err)
	}
	return nil
}
