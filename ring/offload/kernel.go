package offload

import (
	"github.com/socketxtreme/socketxtreme/internal/host"
)

// mirror is the kernel's tables as a host of the stack.
type mirror struct {
	*host.Host
	hops map[host.Target]*host.Hop
}

// hopLimit bounds the neighbours that are kept alive; one more starts afresh with those in use.
const hopLimit = 1024

func newMirror(h *host.Host) *mirror { return &mirror{Host: h, hops: map[host.Target]*host.Hop{}} }

// Resolve asks the kernel. What it refuses (one request a second) is asked for again by the next packet.
func (m *mirror) Resolve(t host.Target) { _, _ = m.Host.Resolve(t) }

// Use keeps the kernel's entry alive.
func (m *mirror) Use(t host.Target) {
	hop := m.hops[t]
	if hop == nil {
		if len(m.hops) >= hopLimit {
			m.release()
		}
		var err error
		if hop, err = m.Hold(t); err != nil {
			return // not a neighbour: nothing to be kept
		}
		m.hops[t] = hop
	}
	hop.Touch()
}

func (m *mirror) release() {
	for t, hop := range m.hops {
		hop.Release()
		delete(m.hops, t)
	}
}
