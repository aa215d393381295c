package nic

import (
	"errors"
	"net/netip"
	"time"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Guard keeps segments of claimed flows of TCP away from the kernel's TCP, which would reset their peers: package guard has it. It belongs to
// the interface, not to its device: it stays where the steering program is taken off, and keeps its entries until the interface carries frames
// again. Until then the kernel accepts on claimed ports: kernelconns.go.
//
//	Claim     guard, then device      so that no segment reaches the kernel before it is redirected
//	Release   device, then guard      nor after
//	device lost, opened again         the guard stays
//	interface deleted, made again     the guard is opened again, with all entries, before the device is given its claims
type Guard interface {
	// Claim has the kernel not see a flow; Release ends it.
	Claim(f link.Flow) error
	Release(f link.Flow) error
	// Pass has the kernel see a connection's segments although its port is claimed. A connection has one entry, which Claim and Pass replace.
	Pass(f link.Flow) error
	// AcceptAfter has SYNs to a claimed port dropped for so long, and then passed to the kernel; for good if d is negative.
	AcceptAfter(f link.Flow, d time.Duration) error
	// AddAddr makes an address of the host known, RemoveAddr undoes it: as of a Device.
	AddAddr(a netip.Addr, vlan uint16) error
	RemoveAddr(a netip.Addr, vlan uint16) error
	// Check is nil while the guard is on the interface, and link.ErrDetached for errors.Is when it was taken off. It may wait for the kernel's
	// configuration lock.
	Check() error
	Counters(dst []link.Counter) []link.Counter
	Close() error
}

// guarding is an interface's guard while its device is opened.
type guarding struct {
	guard   Guard       // what the interface is to have; nil: none
	fresh   bool        // it was opened for this device
	refused link.Reason // why there is none, where there should be one
}

// openGuard finds the guard for a device that was just opened: the one that the interface has, if it is still on it, or a new one with entries
// for the flows. That there is none is no error: the path says why. It may wait for the kernel's configuration lock.
func openGuard(dev Device, has Guard, flows []link.Flow) guarding {
	if has != nil && !isOff(has) {
		return guarding{guard: has}
	}
	g, err := dev.OpenGuard()
	if g == nil && err == nil {
		return guarding{}
	}
	for _, f := range flows {
		if err != nil {
			break
		}
		if f.Protocol == link.TCP {
			err = g.Claim(f)
		}
	}
	if err == nil {
		return guarding{guard: g, fresh: true}
	}
	if g != nil {
		_ = g.Close() // its error says nothing more
	}
	why := reasonOf(err)
	why.Text = "no guard behind the steering program of " + dev.Info().Name + ", so the kernel resets peers of TCP while that program is away: " + why.Text
	return guarding{refused: why}
}

// isOff reports whether a guard was taken off its interface. Where the kernel does not answer it counts as being there.
func isOff(g Guard) bool { return errors.Is(g.Check(), link.ErrDetached) }

// discard closes a guard that was opened for nothing.
func (g guarding) discard() {
	if g.fresh {
		_ = g.guard.Close() // it had nothing to guard yet
	}
}

// guardFlow has the interface's guard keep a flow from the kernel. Under the table's lock.
func (n *nic) guardFlow(f link.Flow) error {
	if n.guard == nil || f.Protocol != link.TCP {
		return nil
	}
	return n.guard.Claim(f)
}

// unguardFlow ends guardFlow. Under the table's lock.
func (n *nic) unguardFlow(f link.Flow) error {
	if n.guard == nil || f.Protocol != link.TCP {
		return nil
	}
	return n.guard.Release(f)
}

// endedInterface is what is left of an interface without users. Its device and its guard are closed together, by the caller of release.
type endedInterface struct {
	device Device // nil: it was lost
	guard  Guard  // nil: it had none
}

// Close closes the device first: until then the guard keeps from the kernel what the device no longer takes.
func (e endedInterface) Close() (err error) {
	if e.device != nil {
		err = e.device.Close()
	}
	if e.guard != nil {
		err = errors.Join(err, e.guard.Close())
	}
	return err
}
