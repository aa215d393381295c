package extraapi

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/xtreme"
)

// ThreadOffload says whether sockets that a poller makes from now on may be offloaded; a poller is to its goroutine what VMA's thread is to
// its sockets, and each loop of a reactor has one. One socket's xtreme.SocketConfig comes before it (RequireOffload, KernelOnly), and it before
// the setting: with VMA_OFFLOADED_SOCKETS=0 the sockets of this poller are
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
