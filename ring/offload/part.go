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
	carrier  *carrier
	open     bool
	serial   uint64    // of the device that the links are of
	info     link.Info // and what that is
	host     int       // index of the interface that has the addresses
	links    []int     // places in driver.links, those that are open first
	count    int       // how many are
	moved    bool      // its way has changed, and the sockets that use it are to be told
	base     *part     // not nil: frames come by the links of that one, and have another tag
	bond     *bond     // not nil: it is a member's
	member   stack.Member
	lost     ring.Reason // why the device carries nothing; zero while it does
	off      ring.Reason // why the interface that has the addresses carries nothing, where that is another
	refused  ring.Reason // why a queue that a closed ring has left could not be had
	vacant   vacancy     // of the interface, as the sockets were told
	standing standing    // what stands on the interface, likewise
	told     int         // queues, likewise
	program  int         // on the interface when a try failed, as the mirror had it
	next     clock.Time  // when to look again, after what wait
	backoff  clock.Time

	errand  *errand       // under way; nil for none
	tying   *errand       // of driver.ties: what sockets had of the interface is made again
	leaving []link.Staged // links that were lost, to be closed by an errand
	spare   []link.Staged // and links that came too late
	dead    Device        // and a device that is nobody's any more
	quits   bool          // it left its bond
	left    bool          // and the exchange knows
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
	before, bonds := len(d.parts), len(d.bonds)
	if err := d.takeInterface(i); err != nil {
		return err
	}
	for _, p := range d.parts[before:] {
		if err := d.claimAll(p.steer()); err != nil {
			d.bonds = d.bonds[:bonds]
			return errors.Join(err, d.dropParts(before))
		}
	}
	d.shadow.now, d.shadow.first = true, claimTurns // what the kernel had of the flows is older
	d.turn |= clockMask
	return nil
}

// takeInterface gives the driver its part in an interface, or its parts in a bond's members; on an error it has none.
func (d *driver) takeInterface(i Interface) error {
	if i.On == "" {
		i.On = i.Name
	}
	switch {
	case i.Name == "":
		return fmt.Errorf("offload: Interface.Name is empty: %w", unix.EINVAL)
	case i.Fill < 0:
		return fmt.Errorf("offload: %s: Fill %d: %w", i.Name, i.Fill, unix.EINVAL)
	case i.Bond:
		return d.takeBond(i)
	}
	return d.takePart(i)
}

// takePart is takeInterface for one device.
func (d *driver) takePart(i Interface) error {
	p, err := d.newPart(i, nil, false)
	switch {
	case err != nil:
		return err
	case p.base != nil:
		d.align(p.base)
		if p.open && p.off.Code != "" {
			return errors.Join(fmt.Errorf("offload: %s: %s: %w", p.On, p.off.Text, unix.ENODEV), d.dropParts(len(d.parts)-1))
		}
		return nil
	}
	if err := d.openPart(p); err != nil {
		return errors.Join(err, d.dropParts(len(d.parts)-1))
	}
	return nil
}

// newPart makes a part that has no links yet; late: its device is opened by an errand. Frames of another tag than those of a part that is
// there already come by that one's links.
func (d *driver) newPart(i Interface, b *bond, late bool) (*part, error) {
	p := &part{Interface: i, bond: b}
	if b != nil {
		p.member = stack.MemberInactive // until it is elected
	}
	for _, other := range d.parts {
		switch {
		case other.Name == i.Name && other.VLAN == i.VLAN:
			return nil, fmt.Errorf("offload: %s: the ring has a part in it: %w", i.Name, unix.EEXIST)
		case other.Name == i.Name && other.quits: // what came by its links would keep it for ever
			return nil, fmt.Errorf("offload: %s: the ring's part in it is still leaving: %w", i.Name, unix.EBUSY)
		case other.Name == i.Name && other.base == nil:
			p.base = other
		}
	}
	c, err := d.config.Exchange.carrier(&i, late || p.base != nil)
	if err != nil {
		return nil, err
	}
	p.carrier = c
	d.parts = append(d.parts, p)
	d.steers = append(d.steers, p.steer())
	return p, nil
}

// openPart opens the links of a new part.
func (d *driver) openPart(p *part) error {
	o := &opening{}
	if o.err = p.carrier.current(o, d.number, p.Queues); o.err == nil {
		o.fill = p.fill(len(o.queues), d.pool)
		if o.prepare(d); o.err == nil {
			o.err = d.serve(p, o)
		}
	}
	p.spare = append(p.spare, o.ready...)
	return o.err
}

// why is why the part carries nothing; zero while it does.
func (p *part) why() ring.Reason {
	switch {
	case p.lost.Code != "":
		return p.lost
	case p.tying != nil:
		return ring.Reason{Code: "link.joining", Text: "what its sockets had joined on " + p.On + " before it was made again is being joined"}
	}
	return p.off
}

// steer is whom the part's claims are made with.
func (p *part) steer() steer { return steer{p.carrier, p.VLAN} }

// dropParts undoes newPart for the parts from a place on.
func (d *driver) dropParts(from int) (err error) {
	list := slices.Clone(d.parts[from:])
	slices.Reverse(list) // those that have links of others first
	for _, p := range list {
		d.forsake(p)
		d.shutPart(p)
		d.await(p)
		if dead := d.leavePart(p); dead != nil {
			err = errors.Join(err, dead.Close())
		}
		d.forget(p)
	}
	return err
}

// forsake gives back what is claimed for the part.
func (d *driver) forsake(p *part) {
	at := p.steer()
	d.table.each(func(e *entry) {
		e.flows = slices.DeleteFunc(e.flows, func(f wanted) bool {
			if f.at == at {
				d.release([]wanted{f})
			}
			return f.at == at
		})
	})
	d.steers = slices.DeleteFunc(d.steers, func(s steer) bool { return s == at })
}

// leavePart takes the driver off the part's interface. What it returns is to be closed.
func (d *driver) leavePart(p *part) Device {
	x := d.config.Exchange
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.part(p, d.number)
}

// forget removes a part that has nothing any more.
func (d *driver) forget(p *part) {
	d.places = append(d.places, p.links...)
	d.parts = slices.DeleteFunc(d.parts, func(x *part) bool { return x == p })
}

// serve makes links of the queues that were opened for the part; on an error it has none, and the rest of them stays in o.
func (d *driver) serve(p *part, o *opening) error {
	c, x := p.carrier, d.config.Exchange
	x.mu.Lock()
	there := c.device == o.dev && c.serial == o.serial
	p.vacant = c.vacancy()
	if there && len(o.queues) > 0 {
		x.version.Add(1) // who told its sockets that nobody serves them looks again
	}
	x.mu.Unlock()
	if !there {
		return fmt.Errorf("offload: %s: %w", p.Name, link.ErrDetached)
	}
	p.info = o.dev.Info()
	in, err := d.host(p, p.info)
	if err != nil {
		return err
	}
	p.host = in.Index
	p.open, p.count = true, 0
	p.moved = d.reviewStanding(p, d.config.Exchange.config.Host.Snapshot()) || p.moved
	for len(o.ready) > 0 {
		l := o.ready[0]
		o.ready = o.ready[1:]
		if err := d.start(p, l, in); err != nil {
			d.shutPart(p)
			return err
		}
	}
	p.told = p.count
	p.lost, p.serial, p.backoff, p.refused = ring.Reason{}, o.serial, 0, ring.Reason{}
	if p.bond != nil {
		d.placeMember(p)
	}
	d.align(p)
	return nil
}

// host is the interface as the stack is to know it.
func (d *driver) host(p *part, info link.Info) (stack.Interface, error) {
	in := stack.Interface{Index: info.Index, MAC: wire.MAC(info.Addr), VLAN: p.VLAN, MTU: info.MTU, Checksum: p.Checksum, Member: p.member}
	if p.On != p.Name {
		l, ok := d.config.Exchange.config.Host.Snapshot().LinkByName(p.On)
		if !ok {
			return in, fmt.Errorf("offload: On %q: %w", p.On, unix.ENODEV)
		}
		in.Index, in.MAC = l.Index, l.MAC // its MTU the stack follows, up to the device's, whose buffers the frames come from and go to
	}
	if err := in.Validate(); err != nil {
		return in, fmt.Errorf("offload: %s: %w", p.Name, err)
	}
	return in, nil
}

// start makes a queue a link of the part; on an error it is closed.
func (d *driver) start(p *part, l link.Staged, in stack.Interface) error {
	if l.Info().Headroom < maxHeaders {
		return errors.Join(fmt.Errorf("offload: %s: headroom %d: %w", p.Name, l.Info().Headroom, unix.EINVAL), l.Close())
	}
	if err := l.Start(); err != nil {
		return err
	}
	if err := d.install(p, l, in); err != nil {
		return errors.Join(err, l.Close())
	}
	return nil
}

// fill is how many buffers each of n queues may keep ready for its card: of half of the pool its part, or the last ones would find nothing.
func (p *part) fill(n int, pool *buffers.Pool) int {
	if p.Fill > 0 {
		return p.Fill
	}
	return max(pool.Layout().SmallCount/2/max(n, 1), 1)
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
		d.down, d.stuck = append(d.down, false), append(d.stuck, false)
		d.lost, d.past = append(d.lost, ring.Reason{}), append(d.past, past{})
		_ = d.stack.AddInterface(in) // validated by openPart
	}
	i := p.links[p.count]
	p.count++
	x := &d.links[i]
	x.Link, x.Index, x.MAC = l, in.Index, (*[6]byte)(&in.MAC)
	d.down[i], d.stuck[i] = false, false
	if in.Wire == 0 {
		in.Wire = i + 1 // its own
	}
	d.stack.Renew(i, in)
	if l.FD() < 0 || !d.listens { // those of another, or see listen
		return nil
	}
	if e := d.list.Control(unix.EPOLL_CTL_ADD, l.FD(), unix.EPOLLIN, linkKey+uint32(i), 0); e != 0 {
		x.Link = &absent{info: l.Info(), path: l.Path()}
		d.stack.SetDown(i, true)
		p.count--
		return fmt.Errorf("offload: epoll_ctl: %w", e)
	}
	return nil
}
