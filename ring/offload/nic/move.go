package nic

import (
	"errors"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// A TCP connection that moves between the stack and the kernel. Its segments must reach neither side's other socket meanwhile:
//
//	into the kernel                       out of it
//	BeginMove   guard drops               BeginMove     guard drops, the device still passes
//	PassMoved   device and guard pass     Claim         the stack's, which the device does not follow yet
//	Release     of the stack's claim      StopPassing   the device follows it
//	EndMove                               EndMove
//
// EndMove leaves the guard as the claims want it, also after a step that failed.

// ErrUnguarded: nothing keeps the segments of a connection from the kernel while it moves.
var ErrUnguarded = errors.New("offload: the interface has no guard")

// BeginMove has the guard drop a connection's segments. Error: ErrUnguarded.
func (n *nic) BeginMove(f link.Flow) error {
	n.table.mu.Lock()
	defer n.table.mu.Unlock()
	if n.guard == nil {
		return ErrUnguarded
	}
	return n.guard.Claim(f)
}

// PassMoved has the kernel get a connection's segments. The device's entry ends with the kernel's connection.
func (n *nic) PassMoved(f link.Flow) error {
	n.table.mu.Lock()
	defer n.table.mu.Unlock()
	if n.device != nil {
		if err := n.device.Pass(f); err != nil {
			return err
		}
		n.notePassed([]link.Flow{f})
	}
	if n.guard == nil {
		return nil
	}
	return n.guard.Pass(f)
}

// StopPassing has the device follow the claims again.
func (n *nic) StopPassing(f link.Flow) {
	n.table.mu.Lock()
	defer n.table.mu.Unlock()
	if _, passed := n.passed.flows[f]; passed && n.device != nil && n.device.StopPassing(f) == nil {
		delete(n.passed.flows, f)
	}
}

// EndMove ends what BeginMove and PassMoved have asked of the guard, unless the stack has a claim of the connection.
func (n *nic) EndMove(f link.Flow) {
	n.table.mu.Lock()
	defer n.table.mu.Unlock()
	switch {
	case n.guard == nil:
	case n.claims[f] > 0:
		_ = n.guard.Claim(f) // the entry is there: there is room for it
	default:
		_ = n.guard.Release(f) // it may have gone with its interface
	}
}
