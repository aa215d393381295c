package offload

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/stack"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// part is a driver's part in an interface of its exchange: the queues it serves there, as long as they can be had.
type part struct {
	Interface
	carrier *carrier
	open    bool
	serial  uint64      // of the device that the links are of
	host    int         // index of the interface that has the addresses
	links   []int       // places in driver.links, those that are open first
	count   int         // how many are
	moved   bool        // its way has changed, and the sockets that use it are to be told
	lost    ring.Reason // why the interface carries nothing; zero while it does
	refused ring.Reason // why a queue that a closed ring has left could not be had
	vacant  vacancy     // of the interface, as the sockets were told
	next    clock.Time  // when to look again, after what wait
	backoff clock.Time
}

// AddInterface gives a ring on an exchange its part in one more interface. The flows of its sockets that are on that interface
// are claimed there too, groups that they joined on it while the kernel had them included. On an error the ring is as
// it was. For the driver's owner, or anyone before the first Poll.
func AddInterface(drv ring.Driver, i Interface) error {
	d, ok := drv.(*driver)
	switch {
	case !ok:
		return fmt.Errorf("offload: add interface: a driver of kind %q: %w", drv.Kind(), unix.EINVAL)
	case d.closed:
		return fmt.Errorf("offload: add interface: %w", ring.ErrClosed)
	case d.config.Exchange == nil:
		return fmt.Errorf("offload: add interface %q: the ring is on no exchange: %w", i.Name, unix.EINVAL)
	}
	if err := d.takePart(i); err != nil {
		return err
	}
	if err := d.claimAll(d.steers[len(d.steers)-1]); err != nil {
		return errors.Join(err, d.dropPart(d.parts[len(d.parts)-1]))
	}
	d.shadow.now, d.shadow.first = true, claimTurns // what the kernel had of the flows is older
	d.turn |= clockMask
	return nil
}

// takePart gives the driver its part in an interface; on an error it has none.
func (d *driver) takePart(i Interface) error {
	if i.On == "" {
		i.On = i.Name
	}
	switch {
	case i.Name == "":
		return fmt.Errorf("offload: Interface.Name is empty: %w", unix.EINVAL)
	case i.Fill < 0:
		return fmt.Errorf("offload: %s: Fill %d: %w", i.Name, i.Fill, unix.EINVAL)
	case slices.ContainsFunc(d.parts, func(p *part) bool { return p.Name == i.Name }):
		return fmt.Errorf("offload: %s: the ring has a part in it: %w", i.Name, unix.EEXIST)
	}
	c, err := d.config.Exchange.carrier(&i)
	if err != nil {
		return err
	}
	p := &part{Interface: i, carrier: c}
	d.parts = append(d.parts, p)
	d.steers = append(d.steers, steer{c, i.VLAN})
	if err := d.openPart(p); err != nil {
		return errors.Join(err, d.dropPart(p))
	}
	return nil
}

// dropPart undoes takePart for the newest part.
func (d *driver) dropPart(p *part) error {
	d.shutPart(p)
	d.places = append(d.places, p.links...)
	d.parts = slices.DeleteFunc(d.parts, func(x *part) bool { return x == p })
	d.steers = slices.DeleteFunc(d.steers, func(s steer) bool { return s.Steering == Steering(p.carrier) })
	x := d.config.Exchange
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.part(p, d.number)
}

// openPart opens the queues; on an error none is open.
func (d *driver) openPart(p *part) (err error) {
	c, x := p.carrier, d.config.Exchange
	x.mu.Lock()
	dev, serial := c.device, c.serial
	var queues []int
	if dev == nil {
		err = fmt.Errorf("offload: %s: %w", p.Name, link.ErrDetached)
	} else {
		queues, err = c.assign(d.number, p.Queues)
		p.vacant = c.vacancy()
	}
	if len(queues) > 0 {
		x.version.Add(1) // who told its sockets that nobody serves them looks again
	}
	x.mu.Unlock()
	if err != nil {
		return err
	}
	in, err := d.host(p, dev)
	if err != nil {
		return err
	}
	p.host = in.Index
	p.open, p.count = true, 0
	for _, q := range queues {
		if err := d.openQueue(p, dev, in, q, p.fill(len(queues), d.pool)); err != nil {
			d.shutPart(p)
			return err
		}
	}
	p.lost, p.serial, p.backoff, p.refused = ring.Reason{}, serial, 0, ring.Reason{}
	return nil
}

// host is the interface as the stack is to know it.
func (d *driver) host(p *part, dev Device) (stack.Interface, error) {
	in := stack.Interface{Index: dev.Info().Index, MAC: wire.MAC(dev.Info().Addr), VLAN: p.VLAN, MTU: dev.Info().MTU, Checksum: p.Checksum}
	if p.On != p.Name {
		l, ok := d.config.Exchange.config.Host.Snapshot().LinkByName(p.On)
		if !ok {
			return in, fmt.Errorf("offload: On %q: %w", p.On, unix.ENODEV)
		}
		in.Index, in.MAC, in.MTU = l.Index, l.MAC, l.MTU
	}
	if err := in.Validate(); err != nil {
		return in, fmt.Errorf("offload: %s: %w", p.Name, err)
	}
	return in, nil
}

// openQueue opens one queue as a link of the part.
func (d *driver) openQueue(p *part, dev Device, in stack.Interface, queue, fill int) error {
	l, err := dev.OpenQueue(queue, d.pool, fill)
	if err != nil {
		return err
	}
	if l.Info().Headroom < maxHeaders {
		return errors.Join(fmt.Errorf("offload: %s: headroom %d: %w", p.Name, l.Info().Headroom, unix.EINVAL), l.Close())
	}
	if err = d.install(p, l, in); err != nil {
		return errors.Join(err, l.Close())
	}
	return nil
}

// fill is how many buffers each of n queues may keep ready for its card: of half of the pool its part, or the last ones would find nothing.
func (p *part) fill(n int, pool *buffers.Pool) int {
	if p.Fill > 0 {
		return p.Fill
	}
	return max(pool.Layout().SmallCount/2/n, 1)
}

// install puts a link into the driver's list, in a place that the part had before, in one of a part that is no more, or in a new one.
func (d *driver) install(p *part, l link.Link, in stack.Interface) error {
	if n := len(d.places); p.count == len(p.links) && n > 0 {
		i := d.places[n-1]
		d.places = d.places[:n-1]
		p.links = append(p.links, i)
		d.links[i] = Link{VLAN: in.VLAN, Checksum: in.Checksum, Path: p.Path}
		d.lost[i], d.past[i] = ring.Reason{}, past{}
	} else if p.count == len(p.links) {
		p.links = append(p.links, len(d.links))
		d.links = append(d.links, Link{VLAN: in.VLAN, Checksum: in.Checksum, Path: p.Path})
		d.down, d.lost, d.past = append(d.down, false), append(d.lost, ring.Reason{}), append(d.past, past{})
		_ = d.stack.AddInterface(in) // validated by openPart
	}
	i := p.links[p.count]
	p.count++
	x := &d.links[i]
	x.Link, x.Index, x.MAC = l, in.Index, (*[6]byte)(&in.MAC)
	d.down[i] = false
	d.stack.Renew(i, in)
	if e := d.list.Control(unix.EPOLL_CTL_ADD, l.FD(), unix.EPOLLIN, linkKey+uint32(i), 0); e != 0 {
		x.Link = &absent{info: l.Info(), path: l.Path()}
		d.stack.SetDown(i, true)
		p.count--
		return fmt.Errorf("offload: epoll_ctl: %w", e)
	}
	return nil
}
