package offload

import (
	"github.com/socketxtreme/socketxtreme/internal/host"
)

// mirror makes of host.Host, the mirror of the kernel's tables, the host that the stack asks (ip.Config.Host): it also keeps the kernel's
// entries of neighbours alive that are in use.
type mirror struct {
	*host.Host
	hops map[host.Target]*host.Hop
}

// hopLimit bounds the neighbours that are kept alive; at one more all are released, and those in use are held again by their next packet.
const hopLimit = 1024

func newMirror(h *host.Host) *mirror { return &mirror{Host: h, hops: map[host.Target]*host.Hop{}} }

// Resolve asks the kernel to find a neighbour's address. A request that is refused (more than one a second) is repeated by the next packet.
func (m *mirror) Resolve(t host.Target) { _, _ = m.Host.Resolve(t) }

// Use tells the kernel that the entry of a neighbour is in use: it stays reachable. The stack calls it now and then.
func (m *mirror) Use(t host.Target) {
	hop := m.hops[t]
	if hop == nil {
		if len(m.hops) >= hopLimit {
			m.release() // those that are still used are held again at their next Use
		}
		var err error
		if hop, err = m.Hold(t); err != nil {
			return // not a neighbour: nothing to be kept
		}
		m.hops[t] = hop
	}
	hop.Touch()
}

// release lets go of all neighbours.
func (m *mirror) release() {
	for t, hop := range m.hops {
		hop.Release()
		delete(m.hops, t)
	}
}
