package xtreme

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/ring"
)

// SetOffload says whether sockets that get their ring from now on may be offloaded; sockets that have one stay as they are. It overrides the
// setting VMA_OFFLOADED_SOCKETS for this poller. A socket's own RequireOffload or KernelOnly overrides SetOffload, and with true the rules may
// still leave a socket to the kernel. On a poller that is not of kind offload, true is ErrNotSupported. Owner only, or anyone before the first
// Poll. (VMA: thread_offload. There the choice belongs to a thread; a goroutine has no thread of its own, so here it belongs to the poller.)
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

// offloadChoice is the argument of the last SetOffload of a poller.
type offloadChoice uint8

const (
	offloadBySetting offloadChoice = iota // there was none: the setting decides
	offloadAllowed
	offloadRefused
)

// kernelByChoice returns the reason if somebody chose the kernel for a socket; nil if nobody did. The socket's own configuration decides before
// the poller's SetOffload, and that before the setting.
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
