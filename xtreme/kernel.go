package xtreme

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/ring"
)

// SetOffload says whether sockets made from now on may be offloaded. Until it is called the setting decides (VMA_OFFLOADED_SOCKETS, 1 by
// default); afterwards the call does, so that one poller offloads its sockets where the setting leaves all others to the kernel. Rules and
// a socket's configuration (RequireOffload, KernelOnly) come after it. Sockets that have their ring stay where they are. On a poller whose
// rings are the kernel's, true is ErrNotSupported. Owner only, or anyone before the first Poll. (VMA: thread_offload, whose answer the next
// thread with the same number inherits. A goroutine has no thread of its own, so the answer belongs to the poller.)
func (p *Poller) SetOffload(on bool) error {
	if err := p.mayUse(); err != nil {
		return fmt.Errorf("xtreme: poller %q: set offload: %w", p.name, err)
	}
	if on && p.offloaded == nil {
		return fmt.Errorf("xtreme: poller %q: set offload: %w", p.name,
			&ring.FeatureError{Feature: "offloading on a poller whose kind of ring is the kernel's", Code: "offload.not_asked"})
	}
	p.mayOffload = offloadRefused
	if on {
		p.mayOffload = offloadAllowed
	}
	return nil
}

// offloadChoice is what SetOffload said last.
type offloadChoice uint8

const (
	offloadBySetting offloadChoice = iota // nothing yet: the setting decides
	offloadAllowed
	offloadRefused
)

// kernelByChoice is why a socket is left to the kernel by its own options, by its owner or by the setting; nil when it is not. The most
// specific of them decides.
func (p *Poller) kernelByChoice(s *Socket) []ring.Reason {
	switch {
	case ring.ConfigOf(s).KernelOnly:
		return []ring.Reason{{Code: "offload.declined", Text: "the socket was opened for the kernel"}}
	case ring.ConfigOf(s).RequireOffload:
		return nil
	case p.mayOffload == offloadRefused && s.Ring() == nil:
		return []ring.Reason{{Code: "offload.declined", Text: "the poller leaves new sockets to the kernel for now"}}
	case p.mayOffload == offloadBySetting && p.engine.settings.KernelOnly:
		return []ring.Reason{{Code: "setting.offloaded_sockets", Text: "every socket is left to the kernel: VMA_OFFLOADED_SOCKETS=0"}}
	}
	return nil
}
