package extraapi

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/xtreme"
)

// ThreadOffload says whether sockets that the poller makes from now on may be offloaded. VMA has this choice for each thread; here a poller,
// which one goroutine polls, has it. A socket's own RequireOffload or KernelOnly (xtreme.SocketConfig) overrides it, and it overrides the
// setting VMA_OFFLOADED_SOCKETS. On a poller that is not of kind offload, true is ErrNotSupported. Owner only. (VMA: thread_offload.)
func ThreadOffload(p *xtreme.Poller, on bool) error {
	if p == nil {
		return fmt.Errorf("extraapi: ThreadOffload: poller is nil: %w", unix.EINVAL)
	}
	if err := p.SetOffload(on); err != nil {
		return fmt.Errorf("extraapi: ThreadOffload: %w", err)
	}
	return nil
}
