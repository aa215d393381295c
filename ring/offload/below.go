package offload

import (
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
)

// below is what is under a driver: the kernel of the machine or of a simulated host, or a MemoryHost in its place.
type below struct {
	memoryHost *MemoryHost // takes the kernel's place; nil beside a kernel
	host       *host.Host  // the mirror of the kernel's tables, for all rings of the exchange; nil without a kernel
	mirror     *mirror     // host as the stack sees it
	system     *System
	transport  ring.Transport // the sockets under the stack
	unwatch    func()
}

// newBelow makes what is under a driver of an exchange.
func newBelow(c *ExchangeConfig) below {
	b := below{memoryHost: c.MemoryHost, system: c.System, transport: c.System.Transport()}
	if b.memoryHost == nil {
		b.host = c.Host
		b.mirror = newMirror(b.host)
	}
	return b
}

// snapshot is the host's tables as they are now, of the kernel or of the MemoryHost.
func (b *below) snapshot() *host.Snapshot {
	if b.memoryHost != nil {
		return b.memoryHost.Snapshot()
	}
	return b.host.Snapshot()
}

// watch calls f on each change of the kernel's tables, on a goroutine of the host. Without a kernel it does nothing.
func (b *below) watch(f func(host.Change)) {
	if b.host != nil {
		b.unwatch = b.host.Watch(f)
	}
}

// stopWatching undoes watch.
func (b *below) stopWatching() {
	if b.unwatch != nil {
		b.unwatch()
	}
}

// release lets go of the neighbours that are kept alive.
func (b *below) release() {
	if b.mirror != nil {
		b.mirror.release()
	}
}
