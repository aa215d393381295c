package offload

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/offload/handoff"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/offload/shadow"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
	"github.com/socketxtreme/socketxtreme/ring/transport/stream"
	"github.com/socketxtreme/socketxtreme/tcp"
	"github.com/socketxtreme/socketxtreme/udp"
)

// Exchange is what the drivers of one process share, each the ring of another goroutine: one device for each interface, with its queues
// divided among the drivers; the claims of their sockets, each inserted once; and the knowledge of whose socket a datagram is for. See
// the package's comment, "Several rings on one interface". Any goroutine.
//
// On a MemoryHost one ring is: what tells rings apart (directory, flows) and what looks for sockets of the kernel (watcher) is nil there.
type Exchange struct {
	config    ExchangeConfig
	directory *udp.Directory // whose socket a datagram is for
	nics      *nic.Table
	hub       *handoff.Hub
	watcher   *shadow.GroupWatcher
	netns     host.Netns     // of the interfaces and the sockets
	flows     *tcp.Directory // which ring has a TCP connection, or listens
	tcpRings  atomic.Uint64  // those that carry TCP, a bit for each number
	transit   *stream.Transit

	close sync.Once
}

// ExchangeConfig is what an exchange is made from.
type ExchangeConfig struct {
	// Host is the kernel's view of the network; not closed by the exchange.
	Host *host.Host
	// MemoryHost takes the kernel's place where the interfaces lead to other stacks only: Host is nil then. It is the Transport of the
	// ring.SetConfig too. One driver at a time is on it.
	MemoryHost *MemoryHost
	// Open opens an interface: nic.XDP makes such a function, and nic.OpenLinks one for links that the caller has made. See nic.TableConfig.
	Open func(name string, p nic.Patience) (nic.Device, error)
	// System, unless nil, takes the place of the operating system of this process: that of a simulated host. Not with a MemoryHost.
	System *System
}

// System is the operating system under the rings of an exchange, beside Host and Open.
type System struct {
	Kernel     shadow.Kernel
	Transport  func() ring.Transport // makes what is under each ring's stack: the kernel's sockets
	Background nic.Background        // runs jobs; nil: on goroutines
	Repeat     func(step func(nudged bool) time.Duration) (nudge, stop func())
}

// processSystem is that of this process.
var processSystem = System{Kernel: shadow.SystemCalls{}, Transport: func() ring.Transport { return kernel.New() }}

// systemOf is what is under the ring of a memory host. Opening and closing a device in memory wait for nothing, so jobs run at once, on the
// ring's goroutine: the tables belong to it.
func systemOf(h *MemoryHost) *System {
	return &System{Kernel: processSystem.Kernel, Transport: func() ring.Transport { return h }, Background: func(work func()) (hasten func()) {
		work()
		return nil
	}}
}

// NewExchange makes an exchange that no driver has joined yet: those made by New from a Config that names it do.
func NewExchange(c ExchangeConfig) (*Exchange, error) {
	switch {
	case c.Host == nil && c.MemoryHost == nil:
		return nil, fmt.Errorf("offload: new exchange: Host and MemoryHost are nil: %w", unix.EINVAL)
	case c.MemoryHost != nil && (c.Host != nil || c.System != nil):
		return nil, fmt.Errorf("offload: new exchange: a MemoryHost, and a Host or a System beside it: %w", unix.EINVAL)
	case c.Open == nil:
		return nil, fmt.Errorf("offload: new exchange: Open is nil: %w", unix.EINVAL)
	}
	x := &Exchange{config: c, hub: handoff.NewHub()}
	if c.MemoryHost != nil {
		x.config.System, x.transit = systemOf(c.MemoryHost), stream.NewTransit(nil)
		x.nics = nic.NewTable(nic.TableConfig{Host: c.MemoryHost, Open: c.Open})
		return x, nil
	}
	var connections func(uint16) ([]host.Connection, error) // a simulated host has none
	// The real kernel, in whose network namespace jobs do their calls; a simulated one has no namespaces.
	if c.System == nil {
		x.config.System = &processSystem
		x.netns, connections = host.CurrentNetns(), host.Connections
	}
	x.directory = udp.NewDirectory([2]uint64{rand.Uint64(), rand.Uint64()})
	x.flows = tcp.NewDirectory([2]uint64{rand.Uint64(), rand.Uint64()})
	x.transit = stream.NewTransit(x.flows)
	x.nics = nic.NewTable(nic.TableConfig{Host: c.Host, Open: c.Open, Netns: x.netns, Connections: connections})
	x.watcher = shadow.NewGroupWatcher(shadow.WatcherConfig{Kernel: x.config.System.Kernel, Netns: x.netns, Wake: x.hub.WakeAll,
		Repeat: x.config.System.Repeat})
	return x, nil
}

// Close ends the exchange, once all its drivers are closed; EBUSY before. Devices are closed with their last driver.
func (x *Exchange) Close() error {
	if err := x.hub.Close(); err != nil {
		return fmt.Errorf("offload: close exchange: %w", err)
	}
	x.close.Do(func() {
		x.nics.Close() // its goroutines work in the namespace
		x.netns.Close()
	})
	return nil
}

// Transit is where TCP connections wait that a listener's AcceptTo was offered. Any goroutine.
func (x *Exchange) Transit() *stream.Transit { return x.transit }

// Path is how frames travel on an interface, while it is open.
func (x *Exchange) Path(name string) (p link.Path, ok bool) { return x.nics.Path(name) }

// enter adds a driver: it gets its number among the rings of the exchange, and its ends of the handoff queues.
func (x *Exchange) enter(d *driver) (err error) {
	h := x.config.MemoryHost
	switch {
	case h == nil:
		d.number, err = x.directory.AddStack()
	case !h.hasRing.CompareAndSwap(false, true):
		err = fmt.Errorf("the MemoryHost has a ring: %w", unix.EBUSY)
	default:
		d.number = 1
	}
	if err != nil {
		return fmt.Errorf("offload: exchange: %w", err)
	}
	if d.handoff, err = x.hub.Join(d.number, d.pool, d.sleep.wakeOwner); err != nil {
		if h == nil {
			x.directory.RemoveStack(d.number)
		} else {
			h.hasRing.Store(false)
		}
		return fmt.Errorf("offload: exchange: %w", err)
	}
	return nil
}

// leave removes a driver that has no attachment any more, with what others know of its sockets. The goroutine that owns d calls it, or any one
// before the first Poll.
func (x *Exchange) leave(d *driver) {
	x.tcpRings.And(^uint64(1 << d.number))
	if h := x.config.MemoryHost; h != nil {
		d.handoff.Close()
		h.hasRing.Store(false)
		return
	}
	// First the tables by which other rings choose this one, then the queues in which they put what they chose it for.
	x.flows.RemoveTable(d.number)
	x.directory.RemoveStack(d.number)
	x.watcher.RemoveRing(d.number)
	d.handoff.Close()
}
