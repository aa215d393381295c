package nic

import (
	"maps"
	"slices"
	"time"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Somebody may take the guard off by force, while the steering program stays. A goroutine of the interface notices, and puts another one on,
// with all entries. Until it is there the paths of TCP sockets say guard.detached.

const (
	guardWatchFirst = 500 * time.Millisecond
	guardWatchLast  = 30 * time.Second // between tries that fail: each loads a program
)

// watchGuard starts the goroutine, if the interface has a guard and none watches it. Under the table's lock.
func (n *nic) watchGuard() {
	if n.guard == nil || n.guardStop != nil {
		return
	}
	stop := make(chan struct{})
	n.guardStop = stop
	n.table.running.Go(func() {
		for wait := guardWatchFirst; ; {
			select {
			case <-stop:
				return
			case <-time.After(wait):
			}
			there := false
			_ = n.table.config.Netns.Do(func() error { there = n.checkGuard(); return nil })
			if wait = min(2*wait, guardWatchLast); there {
				wait = guardWatchFirst
			}
		}
	})
}

// stopWatchingGuard ends the goroutine, which may still ask the kernel something: see Table.Close. Under the table's lock.
func (n *nic) stopWatchingGuard() {
	if n.guardStop != nil {
		close(n.guardStop)
		n.guardStop = nil
	}
}

// checkGuard puts another guard on the interface if the one that it had was taken off. It reports whether one is there. While the device is away
// or is being opened nothing is done: opening it does the same.
func (n *nic) checkGuard() bool {
	t := n.table
	t.mu.Lock()
	old, dev, early := n.guard, n.device, slices.Collect(maps.Keys(n.claims))
	busy := n.opening != nil || dev == nil
	t.mu.Unlock()
	if busy || old == nil || !isOff(old) {
		return true
	}
	n.setUnguarded(link.Reason{Code: "guard.detached", Text: "somebody has taken the guard off " + n.name + ": until another one is there the kernel " +
		"resets peers of TCP while the steering program is away"})
	g := openGuard(dev, nil, early)
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.device != dev || n.guard != old || n.opening != nil { // lost, released or opened again meanwhile: opening has seen to the guard
		g.discard()
		return true
	}
	if g.guard == nil {
		n.unguarded = g.refused
		n.notifyGuard()
		return false
	}
	if err := n.completeGuard(g.guard, early); err != nil {
		g.discard()
		n.unguarded = reasonOf(err)
		n.notifyGuard()
		return false
	}
	n.guard, n.unguarded = g.guard, link.Reason{}
	n.notifyGuard()
	_ = old.Close() // it is off the interface
	return true
}

// completeGuard gives a guard that has entries for the flows early what has changed since, and the addresses. Under the table's lock.
func (n *nic) completeGuard(g Guard, early []link.Flow) (err error) {
	for _, f := range early {
		if err == nil && n.claims[f] == 0 && f.Protocol == link.TCP {
			err = g.Release(f)
		}
	}
	for f := range n.claims {
		if err == nil && f.Protocol == link.TCP && !slices.Contains(early, f) {
			err = g.Claim(f)
		}
	}
	if err == nil {
		n.guarded, err = setAddresses(g, nil, n.addresses)
	}
	return err
}

// setUnguarded notes why the interface has no guard for now.
func (n *nic) setUnguarded(why link.Reason) {
	n.table.mu.Lock()
	defer n.table.mu.Unlock()
	n.unguarded = why
	n.notifyGuard()
}

// notifyGuard has the rings of the interface look at its guard: their sockets' paths have changed. Under the table's lock.
func (n *nic) notifyGuard() {
	n.guardNews++
	n.table.version.Add(1)
}

// guardChanged reports whether the guard of the attachment's interface has changed since the last call.
func (p *attachment) guardChanged() bool {
	p.nic.table.mu.Lock()
	defer p.nic.table.mu.Unlock()
	was := p.guardNews
	p.guardNews = p.nic.guardNews
	return was != p.guardNews
}
