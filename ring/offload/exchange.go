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
	// Open opens an interface: nic.XDP makes such a function. See nic.TableConfig.
	Open func(name string, p nic.Patience) (nic.Device, error)
	// System, unless nil, takes the place of the operating system of this process: that of a simulated host.
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

// NewExchange makes an exchange that no driver has joined yet: those made by New from a Config that names it do.
func NewExchange(c ExchangeConfig) (*Exchange, error) {
	switch {
	case c.Host == nil:
		return nil, fmt.Errorf("offload: new exchange: Host is nil: %w", unix.EINVAL)
	case c.Open == nil:
		return nil, fmt.Errorf("offload: new exchange: Open is nil: %w", unix.EINVAL)
	}
	var connections func(uint16) ([]host.Connection, error) // a simulated host has none
	x := &Exchange{config: c, hub: handoff.NewHub(), directory: udp.NewDirectory([2]uint64{rand.Uint64(), rand.Uint64()}),
		flows: tcp.NewDirectory([2]uint64{rand.Uint64(), rand.Uint64()})}
	x.transit = stream.NewTransit(x.flows)
	if c.System == nil { // the real kernel, in whose network namespace jobs do their calls; a simulated one has no namespaces
		x.config.System = &processSystem
		x.netns, connections = host.CurrentNetns(), host.Connections
	}
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
func (x *Exchange) enter(d *driver) error {
	number, err := x.directory.AddStack()
	if err != nil {
		return fmt.Errorf("offload: exchange: %w", err)
	}
	if d.handoff, err = x.hub.Join(number, d.pool, d.wakeOwner); err != nil {
		x.directory.RemoveStack(number)
		return fmt.Errorf("offload: exchange: %w", err)
	}
	d.number = number
	return nil
}

// leave removes a driver that has no attachment any more, with what others know of its sockets. The goroutine that owns d calls it, or any one
// before the first Poll.
func (x *Exchange) leave(d *driver) {
	// First the tables by which other rings choose this one, then the queues in which they put what they chose it for.
	x.tcpRings.And(^uint64(1 << d.number))
	x.flows.RemoveTable(d.number)
	x.directory.RemoveStack(d.number)
	x.watcher.RemoveRing(d.number)
	d.handoff.Close()
}
