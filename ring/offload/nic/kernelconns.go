package nic

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// The kernel may have connections on a port that rings claim: it accepts while the steering program is away, and a port may be claimed that it
// had before. The claim would give their segments to the stack, which would reset their peers. So each has an entry of the steering program that
// passes it to the kernel, before the port is claimed:
//
//	device lost             guard: SYNs are dropped for acceptAfter, then passed; the kernel accepts
//	device opened again     guard: SYNs are dropped
//	                        device: an entry for each connection that the kernel has on a claimed port, accepted or not
//	                        device: the claims
//	later, sweepEvery       entries of connections that the kernel has no longer are removed
//
// A SYN may reach the kernel between the steps, without a guard every one does: the connections are listed again behind the claims.

const (
	// acceptAfter is how long after the loss of a device SYNs are dropped: a device that is back before has all its clients, which repeat
	// their SYNs after a second.
	acceptAfter = 500 * time.Millisecond
	// sweepEvery is the least time between two sweeps, which look for connections that have ended. A long sweep makes the time longer.
	sweepEvery = time.Second
	sweepShare = 50 // the time is at least so many times what a sweep takes
)

// passedConns are the connections of the kernel that a device passes.
type passedConns struct {
	flows  map[link.Flow]uint64 // each with the number of the last sweep that had begun when it was noted, whose list may lack it
	sweeps uint64               // that have begun
	stop   chan struct{}        // ends the sweeps of the device; nil: there are none
}

// isListened reports whether a flow is one of TCP that has connections of any peer.
func isListened(f link.Flow) bool { return f.Protocol == link.TCP && !f.Remote.IsValid() }

// listConnections asks for the kernel's connections on the ports of flows: one port, or, where flows has several, all.
func (t *Table) listConnections(flows []link.Flow) (list []host.Connection, err error) {
	port, several := uint16(0), false
	for _, f := range flows {
		if isListened(f) {
			several = several || port != 0 && port != f.Local.Port()
			port = f.Local.Port()
		}
	}
	if port == 0 || t.config.Connections == nil {
		return nil, nil
	}
	if several {
		port = 0
	}
	if list, err = t.config.Connections(port); err != nil {
		return nil, fmt.Errorf("offload: %w", err)
	}
	return list, nil
}

// kernelFlows lists the connections that flows would claim. Those with both ends on this host cross no interface.
func kernelFlows(flows []link.Flow, list []host.Connection) (found []link.Flow) {
	for _, f := range flows {
		if !isListened(f) {
			continue
		}
		for _, c := range list {
			if c.Local.Port() == f.Local.Port() && (f.Local.Addr().IsUnspecified() || f.Local.Addr().Unmap() == c.Local.Addr()) &&
				!c.Local.Addr().IsLoopback() && c.Local.Addr() != c.Remote.Addr() {
				found = append(found, link.Flow{Protocol: link.TCP, VLAN: f.VLAN, Local: c.Local, Remote: c.Remote})
			}
		}
	}
	return found
}

// claimOn claims a flow on a device that is the interface's, or is to be, behind entries for the kernel's connections that it would claim. Under
// the table's lock.
func (n *nic) claimOn(dev Device, f link.Flow) error {
	passed, err := n.table.passKernel(dev, f)
	n.noteUnlisted(err)
	n.notePassed(passed)
	return dev.Claim(f)
}

// passKernel has a device pass the connections that the kernel has on the ports of flows, and returns those that are passed. One for which there
// is no room is counted: the stack will reset its peer.
func (t *Table) passKernel(dev Device, flows ...link.Flow) (passed []link.Flow, err error) {
	list, err := t.listConnections(flows)
	if err != nil {
		return nil, err
	}
	for _, f := range kernelFlows(flows, list) {
		if dev.Pass(f) != nil {
			t.unpassed.Add(1)
			continue
		}
		passed = append(passed, f)
	}
	return passed, nil
}

// notePassed notes connections that the interface's device passes, and starts the sweeps with the first. Under the table's lock.
func (n *nic) notePassed(flows []link.Flow) {
	if len(flows) == 0 || n.device == nil {
		return
	}
	if n.passed.flows == nil {
		n.passed.flows = map[link.Flow]uint64{}
	}
	for _, f := range flows {
		n.passed.flows[f] = n.passed.sweeps
	}
	if n.passed.stop == nil {
		dev, stop := n.device, make(chan struct{})
		n.passed.stop = stop
		n.table.running.Go(func() { n.sweep(dev, stop) })
	}
}

// forgetPassed is called when the device is lost or closed: the next one's entries are made anew. Under the table's lock.
func (n *nic) forgetPassed() {
	if n.passed.stop != nil {
		close(n.passed.stop)
	}
	n.passed = passedConns{}
}

// sweep removes the entries of connections that the kernel has no longer, until there are none, or until the device is gone.
func (n *nic) sweep(dev Device, stop chan struct{}) {
	t := n.table
	for wait := sweepEvery; ; {
		select {
		case <-stop:
			return
		case <-time.After(wait):
		}
		t.mu.Lock()
		var flows []link.Flow
		if n.passed.stop == stop {
			n.passed.sweeps++ // what is passed from here on may be missing in the list
			for f := range n.passed.flows {
				flows = append(flows, link.Flow{Protocol: link.TCP, Local: f.Local})
			}
		}
		number := n.passed.sweeps
		t.mu.Unlock()
		begun := time.Now()
		var list []host.Connection
		err := t.config.Netns.Do(func() (err error) {
			list, err = t.listConnections(flows)
			return err
		})
		wait = max(sweepEvery, sweepShare*time.Since(begun))
		if err == nil && n.removeEnded(dev, stop, number, list) {
			return
		}
	}
}

// removeEnded is the end of sweep number: entries that were noted before it began and are not in its list are removed. It reports whether there
// are no more sweeps to be made.
func (n *nic) removeEnded(dev Device, stop chan struct{}, number uint64, list []host.Connection) (over bool) {
	live := make(map[host.Connection]bool, len(list))
	for _, c := range list {
		live[c] = true
	}
	n.table.mu.Lock()
	defer n.table.mu.Unlock()
	if n.passed.stop != stop {
		return true
	}
	for f, noted := range n.passed.flows {
		if noted < number && !live[host.Connection{Local: f.Local, Remote: f.Remote}] && dev.StopPassing(f) == nil {
			delete(n.passed.flows, f)
		}
	}
	if len(n.passed.flows) > 0 {
		return false
	}
	n.passed.stop = nil
	return true
}

// never is the time of acceptIn that does not come.
const never = -1

// acceptIn has a guard pass SYNs to the ports of flows after d, or never. Without a guard they are passed in any case.
func (t *Table) acceptIn(g Guard, d time.Duration, flows ...link.Flow) {
	if g == nil || t.config.Connections == nil {
		return // what the kernel accepted could not be told from what it must not get
	}
	for _, f := range flows {
		if isListened(f) {
			_ = g.AcceptAfter(f, d) // a flow without an entry was released meanwhile
		}
	}
}

// acceptWhileLost has the guard pass SYNs to the kernel, after acceptAfter, because the device is lost. It does not where the kernel's
// connections cannot be listed: the device, once it is back, could not tell their segments from those of the stack. Under the table's lock.
func (n *nic) acceptWhileLost() {
	if n.unlisted.Code == "" {
		n.table.acceptIn(n.guard, acceptAfter, slices.Collect(maps.Keys(n.claims))...)
	}
}

// noteUnlisted notes whether the kernel's connections could be listed. While they cannot, nobody accepts when the device is lost. Under the
// table's lock.
func (n *nic) noteUnlisted(err error) {
	n.unlisted = link.Reason{}
	if err != nil {
		n.unlisted = link.Reason{Code: "tcp.no_diag", Text: "while the steering program of " + n.name + " is away nobody accepts connections there, " +
			"because those of the kernel cannot be listed: " + err.Error()}
	}
}
