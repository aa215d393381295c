package offload

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/stack"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
)

// Exchange is what the drivers of one process share, each the ring of another goroutine: one device for each interface, with its queues
// divided among the drivers; the claims of their sockets, each inserted once; and the knowledge of whose socket a datagram is for. See
// the package's comment, "Several rings on one interface". Any goroutine.
type Exchange struct {
	config    ExchangeConfig
	directory *stack.Directory

	nics    *nic.Table
	version atomic.Uint64 // moves when a driver comes or goes, after the lanes are what they are to be
	foreign foreigners

	mu      sync.Mutex
	members map[int]*driver
	lanes   map[[2]int]*lane // from, to
	closed  bool
}

// ExchangeConfig is what an exchange is made from.
type ExchangeConfig struct {
	// Host is the kernel's view of the network; not closed by the exchange.
	Host *host.Host
	// Open opens an interface: nic.XDP makes such a function. See nic.TableConfig.
	Open func(name string, p nic.Patience) (nic.Device, error)
}

// NewExchange makes an exchange that no driver has joined yet: those made by New from a Config that names it do.
func NewExchange(c ExchangeConfig) (*Exchange, error) {
	switch {
	case c.Host == nil:
		return nil, fmt.Errorf("offload: new exchange: Host is nil: %w", unix.EINVAL)
	case c.Open == nil:
		return nil, fmt.Errorf("offload: new exchange: Open is nil: %w", unix.EINVAL)
	}
	return &Exchange{config: c, nics: nic.NewTable(nic.TableConfig{Host: c.Host, Open: c.Open}),
		directory: stack.NewDirectory([2]uint64{rand.Uint64(), rand.Uint64()}), members: map[int]*driver{}, lanes: map[[2]int]*lane{}}, nil
}

// Close ends the exchange, once all its drivers are closed; EBUSY before. Devices are closed with their last driver.
func (x *Exchange) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if n := len(x.members); n > 0 {
		return fmt.Errorf("offload: close exchange: %d rings are on it: %w", n, unix.EBUSY)
	}
	if !x.closed {
		x.nics.Close()
	}
	x.closed = true
	return nil
}

// Path is how frames travel on an interface, while it is open.
func (x *Exchange) Path(name string) (p link.Path, ok bool) { return x.nics.Path(name) }

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

// leave takes d out, which has no attachment any more. What others were still to read from its buffers they will not, and what they have put down
// for it they take back. Owner of d, or anyone before its first turn.
func (x *Exchange) leave(d *driver) {
	x.directory.Leave(d.number)
	x.foreign.forget(x, d.number)
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
