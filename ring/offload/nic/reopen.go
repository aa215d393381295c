package nic

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
)

// Times between tries to open a lost interface: the first is quick, because a queue that was just released is free within some
// milliseconds, and the last are rare, because each takes the kernel's configuration lock.
//
// While another program is on the interface tries are rarer still, down to one in busyLast: its end is noticed before, because the program's
// process is gone, or the mirror tells.
const (
	retryFirst = clock.Time(10e6)
	retryLast  = clock.Time(1e9)
	busyLast   = clock.Time(30e9)
)

// awaitOpening waits until the goroutine that opens the device has ended. Under the lock, which it gives up meanwhile.
func (n *nic) awaitOpening() {
	opening := n.opening
	n.table.mu.Unlock()
	<-opening
	n.table.mu.Lock()
}

// open opens the interface's device, with all claims and addresses. Under the table's lock, which it gives up while the device is opened,
// because that may wait: flows that are claimed meanwhile are added afterwards. The order of its steps is that of the table in kernelconns.go:
// the connections of the kernel are listed once more behind the claims, for those that began between the first list and the claims.
func (n *nic) open(p Patience) error {
	n.opening = make(chan struct{})
	early, old := slices.Collect(maps.Keys(n.claims)), n.guard
	n.table.mu.Unlock()
	dev, err := n.table.config.Open(n.name, p)
	var g guarding
	var passed []link.Flow
	var unlisted error
	if err == nil {
		g = openGuard(dev, old, early)
		n.table.acceptIn(g.guard, never, early...)
		passed, unlisted = n.table.passKernel(dev, early...)
		if err = claimEach(dev, early); err != nil {
			n.table.acceptIn(old, 0, early...) // the device stays lost: the kernel accepts at once, it has waited before
			g.discard()
			err = errors.Join(err, dev.Close())
		} else if late, err := n.table.passKernel(dev, early...); err == nil {
			passed = append(passed, late...)
		}
	}
	n.table.mu.Lock()
	if err == nil {
		n.noteUnlisted(unlisted)
		err = n.install(dev, g, early, passed)
		n.table.mu.Unlock() // closing waits for the kernel's configuration, and polled rings take the lock
		switch {
		case err != nil:
			g.discard()
			err = errors.Join(err, dev.Close())
		case old != nil && old != g.guard:
			_ = old.Close() // it is off the interface
		}
		n.table.mu.Lock()
	}
	close(n.opening)
	n.opening = nil
	return err
}

// claimEach claims flows on a device, up to the first that is refused.
func claimEach(dev Device, flows []link.Flow) error {
	for _, f := range flows {
		if err := dev.Claim(f); err != nil {
			return err
		}
	}
	return nil
}

// install makes an opened device the interface's, and its guard. early are the flows that are claimed on both already; those claimed or released
// since then follow, and the host's addresses. passed are the kernel's connections that dev passes. On an error the interface
// has no device, and the caller closes dev.
func (n *nic) install(dev Device, g guarding, early, passed []link.Flow) error {
	was, guarded := n.guard, n.guarded
	n.device, n.addresses, n.addressesGen = dev, nil, 0
	n.notePassed(passed)
	if n.guard = g.guard; g.fresh || g.guard == nil {
		n.guarded = nil // it has no address yet
	}
	err := n.syncAddresses()
	had := make(map[link.Flow]bool, len(early))
	for _, f := range early {
		if had[f] = true; n.claims[f] > 0 || err != nil {
			continue
		}
		// Released meanwhile: a guard that the interface had already was told at once; this device and a fresh guard were not there yet.
		if err = dev.Release(f); err == nil && g.fresh {
			err = n.unguardFlow(f)
		}
	}
	for f := range n.claims { // claimed meanwhile: likewise
		if err == nil && !had[f] && g.fresh {
			err = n.guardFlow(f)
		}
		if err == nil && !had[f] {
			n.table.acceptIn(n.guard, never, f)
			err = n.claimOn(dev, f)
		}
	}
	if err != nil {
		n.forgetPassed()
		n.table.acceptIn(was, 0, slices.Collect(maps.Keys(n.claims))...)
		n.device, n.guard, n.guarded = nil, was, guarded
		return err
	}
	n.unguarded = g.refused
	n.watchGuard()
	dev.OnLost(func() { n.table.version.Add(1) }) // the rings check it with their next Poll
	n.serial++
	n.ifIndex = dev.Info().Index
	n.failed, n.backoff, n.retryAt = nil, 0, 0
	return nil
}

// markLost notes that the device with this serial carries nothing any more. The first attachment that notices it gets the device, to close it,
// which takes the steering program off; others get nil.
func (n *nic) markLost(serial uint64, now clock.Time) (dead Device) {
	if n.device == nil || n.serial != serial {
		return nil
	}
	dead, n.device = n.device, nil
	n.forgetPassed()
	n.acceptWhileLost()
	n.backoff = retryFirst
	n.retryAt = now + n.backoff
	return dead
}

// dropOutdated takes away a device whose interface was deleted, also when another interface has its name now, or whose program is gone. It
// runs before an interface is opened again: a ring without links does not inspect the device. The caller closes the device that it returns.
func (n *nic) dropOutdated(now clock.Time) (dead Device) {
	n.table.mu.Lock()
	dev, serial, index := n.device, n.serial, n.ifIndex
	n.table.mu.Unlock()
	if dev == nil {
		return nil
	}
	if l, here := n.table.config.Host.Snapshot().LinkByName(n.name); here && l.Index == index && dev.Check() == nil {
		return nil
	}
	n.table.mu.Lock()
	defer n.table.mu.Unlock()
	return n.markLost(serial, now)
}

// reopen opens the device again, if it is not there and it is time to try. Not for a ring's own goroutine: it may take long.
func (n *nic) reopen(now clock.Time) error {
	program := n.currentProgram()
	n.table.mu.Lock()
	defer n.table.mu.Unlock()
	was := n.failed
	n.table.mu.Unlock()
	occupantEnded := hasEnded(was) // a system call: not under the lock
	n.table.mu.Lock()
	for n.opening != nil {
		n.awaitOpening()
	}
	switch {
	case n.device != nil:
		return nil
	// Not yet, unless the program that was in the way has ended (and nobody has tried since) or another one is on the interface.
	case now < n.retryAt && n.failed != nil && !(occupantEnded && n.failed == was) && program == n.program:
		return n.failed
	}
	err := n.open(Impatient)
	if err != nil {
		last := retryLast
		if isBusy(err) {
			last = busyLast
		}
		n.failed, n.program = err, program
		n.backoff = min(2*max(n.backoff, retryFirst), last)
		n.retryAt = now + n.backoff
	}
	return err
}

// currentProgram is the id of the XDP program on the interface, as the mirror has it; 0 for none.
func (n *nic) currentProgram() int {
	l, _ := n.table.config.Host.Snapshot().LinkByName(n.name)
	return l.Program
}

// isBusy reports whether another program has the interface.
func isBusy(err error) bool { return reasonOf(err).Code == xdp.ReasonBusy }

// hasEnded reports whether err is the refusal for another process's program, and that process has ended: it is known without the lock of the
// kernel's configuration.
func hasEnded(err error) bool {
	var o *xdp.Occupied
	return errors.As(err, &o) && o.Ended()
}

// reasonOf is the reason of a link.Refusal, or link.detached with the text of any other error.
func reasonOf(err error) link.Reason {
	var refusal *link.Refusal
	if errors.As(err, &refusal) {
		return refusal.Reason
	}
	return link.Reason{Code: "link.detached", Text: err.Error()}
}

// addressSource is an interface of the host whose frames arrive at the device, and the tag that they have there.
type addressSource struct {
	ifName string
	vlan   uint16
}

type address struct {
	netip.Addr
	vlan uint16
}

// addressed is what is told which addresses the host has: a device, a guard.
type addressed interface {
	AddAddr(a netip.Addr, vlan uint16) error
	RemoveAddr(a netip.Addr, vlan uint16) error
}

// syncAddresses gives the device and the guard the host's addresses (AddAddr), if the host's tables have changed since the last call. Under the
// table's lock.
func (n *nic) syncAddresses() error {
	s := n.table.config.Host.Snapshot()
	if n.addressesGen == s.Generation() || n.device == nil {
		return nil
	}
	var now []address
	for _, at := range n.sources {
		l, ok := s.LinkByName(at.ifName)
		if !ok {
			continue
		}
		for _, a := range s.Addresses() {
			if x := (address{a.Local, at.vlan}); a.Interface == l.Index && a.Local.Is4() && !slices.Contains(now, x) {
				now = append(now, x)
			}
		}
	}
	var err error
	if n.guard != nil { // first, as with claims
		n.guarded, err = setAddresses(n.guard, n.guarded, now)
	}
	if err == nil {
		n.addresses, err = setAddresses(n.device, n.addresses, now)
	}
	if err != nil {
		return fmt.Errorf("offload: %w", err)
	}
	n.addressesGen = s.Generation()
	return nil
}

// setAddresses removes the addresses that are not in now, and adds those that are missing. It returns the list as it is then, also on an error.
func setAddresses(to addressed, known, now []address) (list []address, err error) {
	for _, a := range known {
		if err == nil && !slices.Contains(now, a) {
			if err = to.RemoveAddr(a.Addr, a.vlan); err == nil {
				continue
			}
		}
		list = append(list, a)
	}
	for _, a := range now {
		if err != nil {
			break
		}
		if slices.Contains(list, a) {
			continue
		}
		if err = to.AddAddr(a.Addr, a.vlan); err == nil {
			list = append(list, a)
		}
	}
	return list, err
}
