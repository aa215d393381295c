package offload

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/stack"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/udp"
)

// Exchange is what the drivers of one process share, each the ring of another goroutine: one device for each interface, with its queues
// divided among the drivers; the claims of their sockets, each inserted once; and the knowledge of whose socket a datagram is for. See
// the package's comment, "Several rings on one interface". Any goroutine.
type Exchange struct {
	config    ExchangeConfig
	directory *stack.Directory

	space   space         // where interfaces are opened: that of Host
	version atomic.Uint64 // moves when a driver comes or goes, after the lanes are what they are to be
	foreign foreigners

	mu       sync.Mutex
	members  map[int]*driver
	lanes    map[[2]int]*lane // from, to
	carriers map[string]*carrier
	closed   bool
}

// ExchangeConfig is what an exchange is made from.
type ExchangeConfig struct {
	// Host is the kernel's view of the network; not closed by the exchange.
	Host *host.Host
	// Open readies an interface: XDP makes such a function. It runs on the goroutine of the driver that needs the interface first; after a
	// loss, and for what joins a bond, on another one, in the network namespace where the exchange was made.
	Open func(name string, p Patience) (Device, error)
}

// Patience says whether opening a device, or a queue of it, may wait for somebody else to let go of it.
type Patience bool

// The two of them.
const (
	Patient   Patience = true  // the driver is being made: some 100 ms do not matter
	Impatient Patience = false // the driver comes again by itself
)

// Interface is a driver's part in an interface of its exchange.
type Interface struct {
	Name string // of the interface whose queues carry the frames
	// Queues are those that this driver serves; nil: all that no other driver serves, so that the first one has them; empty and not nil:
	// none. A driver without a queue receives what the others hand over and sends through the kernel.
	Queues   []int
	Fill     int           // buffers that each queue keeps ready for its card; 0: all of them together half of the pool
	VLAN     uint16        // of the frames' tag; 0: untagged. Several of one interface are parts of their own, with its queues
	On       string        // the interface that has the addresses, where it is another: eth0.5 for VLAN 5 of eth0
	Bond     bool          // the queues are those of each member of the bond that Name is, or stands on, as the host has it from then on
	Checksum udp.Policy    // what is done with wrong sums
	Path     []link.Reason // reasons of the caller's choice, for socket paths
}

// NewExchange makes an exchange that no driver has joined yet: those made by New from a Config that names it do.
func NewExchange(c ExchangeConfig) (*Exchange, error) {
	switch {
	case c.Host == nil:
		return nil, fmt.Errorf("offload: new exchange: Host is nil: %w", unix.EINVAL)
	case c.Open == nil:
		return nil, fmt.Errorf("offload: new exchange: Open is nil: %w", unix.EINVAL)
	}
	return &Exchange{config: c, space: hereSpace(), directory: stack.NewDirectory([2]uint64{rand.Uint64(), rand.Uint64()}),
		members: map[int]*driver{}, lanes: map[[2]int]*lane{}, carriers: map[string]*carrier{}}, nil
}

// Close ends the exchange, once all its drivers are closed; EBUSY before. Devices are closed with their last driver.
func (x *Exchange) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if n := len(x.members); n > 0 {
		return fmt.Errorf("offload: close exchange: %d rings are on it: %w", n, unix.EBUSY)
	}
	if !x.closed {
		x.space.close()
	}
	x.closed = true
	return nil
}

// Path is how frames travel on an interface, while it is open.
func (x *Exchange) Path(name string) (p link.Path, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if c := x.carriers[name]; c != nil && c.device != nil {
		return c.device.Path(), true
	}
	return link.Path{}, false
}

// enter makes d one of the drivers, with lanes from and to each of the others.
func (x *Exchange) enter(d *driver) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return fmt.Errorf("offload: exchange: %w", errClosedExchange)
	}
	number, err := x.directory.Enter()
	if err != nil {
		return fmt.Errorf("offload: exchange: %w", err)
	}
	for other, m := range x.members {
		x.lanes[[2]int{number, other}] = newLane(d.pool, m)
		x.lanes[[2]int{other, number}] = newLane(m.pool, d)
	}
	d.number = number
	x.members[number] = d
	x.version.Add(1)
	return nil
}

var errClosedExchange = errors.New("it was closed")

// leave takes d out. What others were still to read from its buffers they will not, and what they have put down for it they take back.
// Owner of d, or anyone before its first turn.
func (x *Exchange) leave(d *driver) error {
	x.directory.Leave(d.number)
	x.foreign.forget(x, d.number)
	var err error
	for _, dead := range x.without(d) { // not under the lock, which the others take while they are polled: it may take long
		err = errors.Join(err, dead.Close())
	}
	return err
}

// without takes d off lanes and interfaces. What it returns is to be closed.
func (x *Exchange) without(d *driver) (dead []Device) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for pair, l := range x.lanes {
		switch d.number {
		case pair[0]:
			l.shut()
			_, unread := l.reclaim()
			l.to.bereft.Add(uint64(unread)) // d's own counters end here
			delete(x.lanes, pair)
		case pair[1]:
			l.closed.Store(true) // d does not read now: this is its goroutine
			delete(x.lanes, pair)
		}
	}
	delete(x.members, d.number)
	x.version.Add(1)
	for _, p := range d.parts {
		if device := x.part(p, d.number); device != nil {
			dead = append(dead, device)
		}
	}
	d.parts = nil
	return dead
}

// part takes a driver off an interface. With the last one the device is nobody's: it is to be closed.
func (x *Exchange) part(p *part, number int) (dead Device) {
	c := p.carrier
	if p.left {
		return nil
	}
	p.left = true
	if p.base == nil {
		c.disown(number)
	}
	if c.users--; c.users > 0 {
		x.version.Add(1) // there may be queues to be had
		return nil
	}
	delete(x.carriers, c.name)
	dead, c.device = c.device, nil
	return dead
}

// meet takes note of drivers that came and went. Owner of d.
func (x *Exchange) meet(d *driver) {
	x.mu.Lock()
	defer x.mu.Unlock()
	old := d.outward
	d.met, d.outward, d.inward, d.out = x.version.Load(), nil, nil, lanesByTo{}
	for pair, l := range x.lanes {
		switch d.number {
		case pair[0]:
			d.outward = append(d.outward, l)
			d.out[pair[1]] = l
		case pair[1]:
			d.inward = append(d.inward, l)
		}
	}
	for _, l := range old {
		if !slices.Contains(d.outward, l) {
			d.returned(l) // its reader is gone
		}
	}
}

// counters appends what the steering programs count, "eth0.steer.claimed" and so on: those of the interface, whichever ring is asked.
func (x *Exchange) counters(dst []ring.Counter) []ring.Counter {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(x.carriers)) {
		c := x.carriers[name]
		if c.device == nil {
			continue
		}
		for _, n := range c.device.Counters(nil) {
			dst = append(dst, ring.Counter{Name: name + "." + n.Name, Value: n.Value})
		}
	}
	return dst
}
