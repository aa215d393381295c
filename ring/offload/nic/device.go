package nic

import (
	"net/netip"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/guard"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/offload/steering"
)

// Device is an interface whose queues can be opened as links. Any goroutine.
type Device interface {
	steering.Claimer
	// AddAddr makes an address of the host known, RemoveAddr undoes it. A flow that is claimed on all addresses is redirected if its packets
	// are for one of these.
	AddAddr(a netip.Addr, vlan uint16) error
	RemoveAddr(a netip.Addr, vlan uint16) error
	// Pass has the segments of a TCP connection of the kernel's go on to the kernel although its port is claimed; StopPassing ends that.
	Pass(f link.Flow) error
	StopPassing(f link.Flow) error
	// Queues lists the queues that frames can arrive on.
	Queues() []int
	// PrepareQueue opens a queue that keeps at most fill buffers ready for the card. The call may wait for the kernel's configuration lock.
	// It takes no buffer, and reads of the pool what never changes.
	PrepareQueue(queue int, pool *buffers.DriverPool, fill int) (link.Staged, error)
	// OpenGuard opens a guard for the device's interface; nil without an error: flows of TCP cannot be claimed, so that there is nothing to
	// guard. The call may wait for the kernel's configuration lock. The guard outlives the device.
	OpenGuard() (Guard, error)
	// Info and Path are what the queues have in common.
	Info() link.Info
	Path() link.Path
	// Check is that of its links: whether frames are still steered.
	Check() error
	// OnLost has f called, on any goroutine, when Check begins to return an error. A device that cannot tell does not: rings check it in any
	// case.
	OnLost(f func())
	Counters(dst []link.Counter) []link.Counter
	Close() error
}

// partialDevice is a Device that may have been opened with a part of the interface's queues. LeftOut lists the others.
type partialDevice interface{ LeftOut() []int }

// Patience says whether opening a device, or a queue of it, may wait for another program or ring that is about to release it.
type Patience bool

// The two of them.
const (
	Patient   Patience = true  // the ring is being made: some 100 ms do not matter
	Impatient Patience = false // the attachment is tried again by itself
)

// XDP is the TableConfig.Open of AF_XDP: each interface is opened by c, whose Interface is replaced by its name. The interface is that
// of the calling thread's network namespace, so the goroutines of all rings must be in one; a lost interface is opened again there.
func XDP(c xdp.Config) func(name string, p Patience) (Device, error) {
	return func(name string, p Patience) (Device, error) {
		c := c
		c.Interface = name
		if p == Impatient {
			c.Retry = -1
		}
		d, err := xdp.Open(c)
		if err != nil {
			return nil, err
		}
		return xdpDevice{d, c.TCP}, nil
	}
}

var _ partialDevice = xdpDevice{}

type xdpDevice struct {
	*xdp.Device
	tcp bool
}

func (d xdpDevice) AddAddr(a netip.Addr, vlan uint16) error { return d.Program().AddAddr(a, vlan) }

func (d xdpDevice) RemoveAddr(a netip.Addr, vlan uint16) error {
	return d.Program().RemoveAddr(a, vlan)
}

func (d xdpDevice) Check() error { return d.Program().Check() }

func (d xdpDevice) OnLost(f func()) { d.Program().OnLost(f) }

// OpenGuard puts a guard behind the steering program.
func (d xdpDevice) OpenGuard() (Guard, error) {
	if !d.tcp {
		return nil, nil
	}
	g, err := guard.Open(guard.Config{Index: d.Info().Index})
	if err != nil {
		return nil, err // not a nil *guard.Guard in an interface
	}
	return g, nil
}

// PrepareQueue opens a queue of the AF_XDP device.
func (d xdpDevice) PrepareQueue(queue int, pool *buffers.DriverPool, fill int) (link.Staged, error) {
	q, err := d.Device.PrepareQueue(queue, pool, fill)
	if err != nil {
		return nil, err // not a nil *Queue in an interface
	}
	return q, nil
}
