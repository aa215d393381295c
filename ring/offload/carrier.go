package offload

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
)

// carrier is an interface of an exchange: its device, which may go and come back, and what outlives it, the claims and whose queues are
// whose. Everything under the exchange's lock.
type carrier struct {
	x       *Exchange
	name    string
	users   int               // drivers that have a part in it
	device  Device            // nil while the interface carries nothing
	serial  uint64            // of the device: each one opened has another
	index   int               // of the interface, as the device has it
	claims  map[link.Flow]int // how many drivers claim each
	owners  map[int]int       // queue → number of its driver
	orphans map[int]bool      // queues whose driver has left, and which no other has taken
	sides   []side            // that the addresses are taken from
	known   []address         // that the device was told
	looked  uint64            // generation of the host that they are of
	failed  error             // why the last try to open the device failed
	program int               // on the interface, as the mirror had it then
	next    clock.Time        // when it is tried again, and after what wait
	backoff clock.Time
	opening chan struct{} // not nil while somebody opens the device, without the lock; closed then
}

// side is an interface of the host whose frames the carrier has, with their tag.
type side struct {
	name string
	vlan uint16
}

type address struct {
	netip.Addr
	vlan uint16
}

// Times between tries to have an interface back: the first is quick, because a queue that was just let go of is free within some
// milliseconds, and the last are rare, because each takes the kernel's configuration lock.
//
// While another program is on the interface tries are rarer still, down to one in busyLast: what ends that is seen before, because the program is
// gone, or the mirror tells.
const (
	retryFirst = clock.Time(10e6)
	retryLast  = clock.Time(1e9)
	busyLast   = clock.Time(30e9)
)

// carrier finds or opens the carrier of an interface, for a driver that is being made. The device is opened without the lock: that may wait
// (Patient), and the other drivers, those of other interfaces too, take the lock while they are polled.
//
// With late it is not opened, and nobody who opens it is waited for: an errand will, see driver.recover.
func (x *Exchange) carrier(i *Interface, late bool) (*carrier, error) {
	s := side{i.Name, i.VLAN}
	if i.On != "" {
		s.name = i.On
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.carriers[i.Name]
	for c != nil && c.opening != nil && !late {
		c.sitOut()
		c = x.carriers[i.Name]
	}
	if c == nil {
		c = &carrier{x: x, name: i.Name, claims: map[link.Flow]int{}, owners: map[int]int{}, orphans: map[int]bool{}, sides: []side{s}}
		x.carriers[i.Name] = c
		if late {
			c.users++
			return c, nil
		}
		if err := c.openDevice(Patient); err != nil {
			delete(x.carriers, i.Name)
			return nil, err
		}
	}
	if !slices.Contains(c.sides, s) {
		c.sides = append(c.sides, s)
		c.looked = 0
		if err := c.tellAddresses(); err != nil {
			return nil, err
		}
	}
	c.users++
	return c, nil
}

// sitOut waits until who opens the device has ended. Under the lock, which it gives up meanwhile.
func (c *carrier) sitOut() {
	opening := c.opening
	c.x.mu.Unlock()
	<-opening
	c.x.mu.Lock()
}

// openDevice opens the device and tells it all there is to know. Under the lock, which it gives up meanwhile: what was claimed until
// then is claimed without it too.
func (c *carrier) openDevice(p Patience) error {
	c.opening = make(chan struct{})
	early := slices.Collect(maps.Keys(c.claims))
	c.x.mu.Unlock()
	dev, err := c.x.config.Open(c.name, p)
	if err == nil {
		if err = claimEach(dev, early); err != nil {
			err = errors.Join(err, dev.Close())
		}
	}
	c.x.mu.Lock()
	if err == nil {
		if err = c.take(dev, early); err != nil {
			c.x.mu.Unlock() // closing waits for the kernel's configuration, and polled rings take the lock
			err = errors.Join(err, dev.Close())
			c.x.mu.Lock()
		}
	}
	close(c.opening)
	c.opening = nil
	return err
}

func claimEach(dev Device, flows []link.Flow) error {
	for _, f := range flows {
		if err := dev.Claim(f); err != nil {
			return err
		}
	}
	return nil
}

// take makes a device that was opened the carrier's, on which some flows are claimed already. On an error there is none.
func (c *carrier) take(dev Device, early []link.Flow) error {
	c.device, c.known, c.looked = dev, nil, 0
	err := c.tellAddresses()
	had := make(map[link.Flow]bool, len(early))
	for _, f := range early {
		if had[f] = true; c.claims[f] == 0 && err == nil { // given back meanwhile
			err = dev.Release(f)
		}
	}
	for f := range c.claims {
		if err == nil && !had[f] { // made meanwhile
			err = dev.Claim(f)
		}
	}
	if err != nil {
		c.device = nil
		return err
	}
	c.serial++
	c.index = dev.Info().Index
	c.failed, c.backoff, c.next = nil, 0, 0
	return nil
}

// tellAddresses makes what the device knows of addresses what the host has, if that has changed.
func (c *carrier) tellAddresses() error {
	s := c.x.config.Host.Snapshot()
	if c.looked == s.Generation() || c.device == nil {
		return nil
	}
	var now []address
	for _, side := range c.sides {
		l, ok := s.LinkByName(side.name)
		if !ok {
			continue
		}
		for _, a := range s.Addresses() {
			if x := (address{a.Local, side.vlan}); a.Interface == l.Index && a.Local.Is4() && !slices.Contains(now, x) {
				now = append(now, x)
			}
		}
	}
	kept := c.known[:0:0]
	for _, a := range c.known {
		if slices.Contains(now, a) {
			kept = append(kept, a)
		} else if err := c.device.RemoveAddr(a.Addr, a.vlan); err != nil {
			return fmt.Errorf("offload: %w", err)
		}
	}
	c.known = kept
	for _, a := range now {
		if slices.Contains(c.known, a) {
			continue
		}
		if err := c.device.AddAddr(a.Addr, a.vlan); err != nil {
			return fmt.Errorf("offload: %w", err)
		}
		c.known = append(c.known, a)
	}
	c.looked = s.Generation()
	return nil
}

// assign makes queues a driver's: those it asks for, or all that are free.
func (c *carrier) assign(number int, want []int) ([]int, error) {
	all := c.device.Queues()
	if want == nil {
		for _, q := range all {
			if owner := c.owners[q]; owner == 0 || owner == number {
				want = append(want, q)
			}
		}
	}
	for _, q := range want {
		switch owner := c.owners[q]; {
		case !slices.Contains(all, q):
			return nil, fmt.Errorf("offload: %s: Queues has %d, the interface %v: %w", c.name, q, all, unix.EINVAL)
		case owner != 0 && owner != number:
			return nil, fmt.Errorf("offload: %s: queue %d is another ring's: %w", c.name, q, unix.EBUSY)
		}
	}
	for _, q := range want {
		c.owners[q] = number
		delete(c.orphans, q)
	}
	return want, nil
}

// disown frees the queues of a driver, which has left.
func (c *carrier) disown(number int) {
	for q, owner := range c.owners {
		if owner == number {
			delete(c.owners, q)
			c.orphans[q] = true
		}
	}
}

// lose notes that a device carries nothing any more. Whoever notices it first gets it, to close it: that takes the program off, if it is
// still there.
func (c *carrier) lose(serial uint64, now clock.Time) (dead Device) {
	if c.device == nil || c.serial != serial {
		return nil
	}
	dead, c.device = c.device, nil
	c.backoff = retryFirst
	c.next = now + c.backoff
	return dead
}

// loseOutdated gives up a device whose interface was deleted, also when another one has its name now, or whose program is gone. While all queues are
// closed nothing else notices: a ring inspects the device of links that it has. The caller closes what it returns.
func (c *carrier) loseOutdated(now clock.Time) (dead Device) {
	c.x.mu.Lock()
	dev, serial, index := c.device, c.serial, c.index
	c.x.mu.Unlock()
	if dev == nil {
		return nil
	}
	if l, here := c.x.config.Host.Snapshot().LinkByName(c.name); here && l.Index == index && dev.Check() == nil {
		return nil
	}
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	return c.lose(serial, now)
}

// reopen has the device back, if it is there or it is time to try. Not for a ring's own goroutine: it may take long.
func (c *carrier) reopen(now clock.Time) error {
	program := c.programNow()
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	was := c.failed
	c.x.mu.Unlock()
	free := freed(was) // a system call: not under the lock
	c.x.mu.Lock()
	for c.opening != nil {
		c.sitOut()
	}
	switch {
	case c.device != nil:
		return nil
	case now < c.next && c.failed != nil && !(free && c.failed == was) && program == c.program:
		return c.failed
	}
	err := c.openDevice(Impatient)
	if err != nil {
		last := retryLast
		if isBusy(err) {
			last = busyLast
		}
		c.failed, c.program = err, program
		c.backoff = min(2*max(c.backoff, retryFirst), last)
		c.next = now + c.backoff
	}
	return err
}

// programNow is the program that is on the interface, as far as the mirror knows.
func (c *carrier) programNow() int {
	l, _ := c.x.config.Host.Snapshot().LinkByName(c.name)
	return l.Program
}

// isBusy tells whether somebody else has the interface.
func isBusy(err error) bool { return reasonOf(err).Code == xdp.ReasonBusy }

// freed tells whether what was in the way has ended, as far as that can be known without the lock of the kernel's configuration.
func freed(err error) bool {
	var o *xdp.Occupied
	return errors.As(err, &o) && o.Ended()
}

// current is the device, and the queues of it that a driver gets: those it wants.
func (c *carrier) current(o *opening, number int, want []int) (err error) {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	if c.device == nil {
		return fmt.Errorf("offload: %s: %w", c.name, link.ErrDetached)
	}
	o.dev, o.serial = c.device, c.serial
	o.queues, err = c.assign(number, want)
	return err
}

// reasonOf is the reason that a refusal has, or one for any other error.
func reasonOf(err error) ring.Reason {
	var refusal *link.Refusal
	if errors.As(err, &refusal) {
		return ring.Reason{Code: refusal.Reason.Code, Text: refusal.Reason.Text}
	}
	return ring.Reason{Code: "link.detached", Text: err.Error()}
}

// Claim and Release make a carrier the Steering of its drivers. A claim is inserted once, by the first of them, and removed by the last;
// while the device is gone it is noted for the next.

func (c *carrier) Claim(f link.Flow) error {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	if c.claims[f] == 0 && c.device != nil {
		if err := c.device.Claim(f); err != nil {
			return err
		}
	}
	c.claims[f]++
	return nil
}

// Release gives up one claim of the flow.
func (c *carrier) Release(f link.Flow) error {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	if c.claims[f]--; c.claims[f] > 0 {
		return nil
	}
	delete(c.claims, f)
	if c.device == nil {
		return nil
	}
	return c.device.Release(f)
}
