package xtreme

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// together is the rings of both sets as one list, for as long as neither changes.
type together struct{ kernel, offloaded, all []*ring.Ring }

// Rings lists the poller's rings: kernel rings first. There is one of these from the start; the ring allocation logic may ask for more,
// and a poller of kind offload has one over its interfaces once a socket can use it. The slice must not be changed. Any goroutine.
func (p *Poller) Rings() []*ring.Ring {
	kernel := p.set.Rings()
	if p.offloaded == nil {
		return kernel
	}
	offloaded := p.offloaded.rings()
	if len(offloaded) == 0 {
		return kernel
	}
	t := p.rings.Load()
	if t == nil || !same(t.kernel, kernel) || !same(t.offloaded, offloaded) {
		t = &together{kernel, offloaded, slices.Concat(kernel, offloaded)}
		p.rings.Store(t)
	}
	return t.all
}

// same reports whether it is the same list: a set makes a new one when it changes.
func same(a, b []*ring.Ring) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// wakeOwner is the pool's return callback of a poller with two sets: a lent buffer came back. Any goroutine.
func (p *Poller) wakeOwner() {
	p.set.WakeIfSleeping()
	if set := p.offloaded.set.Load(); set != nil {
		set.WakeIfSleeping()
	}
}

// Poll polls the poller's rings into dst, fairly: each has a share of the room, what one leaves goes to the next, and each Poll
// begins with another ring. Kernel rings with nothing to do are passed over. It never blocks. An error comes with n = 0, always: a failure
// of one ring waits until the completions of that Poll are delivered, and the next Poll begins with it.
func (p *Poller) Poll(dst []Completion) (int, error) {
	rings := p.Rings()
	if len(rings) == 1 {
		return rings[0].Poll(dst)
	}
	if err := p.check(); err != nil {
		return 0, err
	}
	if len(rings) == 0 {
		return 0, p.onRingClosed()
	}
	if len(dst) == 0 {
		return 0, ring.ErrNoSlice
	}
	if p.self.Load() == 0 {
		p.next = 0 // the ring that there was from the start knows whether it was polled by another goroutine
	}
	n := 0
	first := p.next
	if first >= len(rings) {
		first = 0
	}
	p.next = first + 1
	left := 0
	var only *ring.Ring // with work, if left is 1
	for i, r := range rings {
		idle, failing := ring.IdleAndFailing(r)
		if !idle {
			left++
			only = r
		}
		if failing {
			first = i
		}
	}
	if left == 1 && p.self.Load() != 0 { // the usual case: the offloaded ring alone
		n, err := ring.PollBehind(only, dst, 0)
		if err != nil && !p.closed.Load() && errors.Is(only.Check(), ring.ErrClosed) {
			return 0, nil // posted work closed this ring, not the poller
		}
		return n, err
	}
	for i := range rings {
		r := rings[(first+i)%len(rings)]
		if ring.IsIdle(r) {
			continue
		}
		room := len(dst) - n
		if room == 0 {
			p.next = (first + i) % len(rings)
			break
		}
		left = max(left, 1) // a ring that got work since they were counted counts as well
		share := (room + left - 1) / left
		left--
		k, err := ring.PollBehind(r, dst[n:n+share], n)
		n += k
		switch {
		case err != nil && !p.closed.Load() && errors.Is(r.Check(), ring.ErrClosed):
			continue // posted work closed this ring, not the poller
		case err != nil && n == 0:
			return 0, err
		case err != nil: // ErrOwner, or ErrClosed of the poller: the next Poll returns it
			return n, nil
		}
		if i == 0 && p.self.Load() == 0 {
			p.self.Store(sys.Goroutine())
		}
	}
	return n, nil
}

// check reports whether the caller may use the rings. Each ring knows its owner by itself, but one that came later and was not
// polled yet has none, and would take the first comer.
func (p *Poller) check() error {
	if self := p.self.Load(); self != 0 && self != sys.Goroutine() {
		return ring.ErrOwner
	}
	if p.closed.Load() {
		return p.onRingClosed()
	}
	return nil
}

// mayUse is check for everything but Poll: also a poller with one ring, which knows its goroutine, is asked.
func (p *Poller) mayUse() error {
	if err := p.set.BeginCall(); errors.Is(err, ring.ErrOwner) {
		return err
	}
	return p.check()
}

func (p *Poller) onRingClosed() error {
	return fmt.Errorf("xtreme: poller %q: %w", p.name, ring.ErrClosed)
}

// WaitFor sleeps until one of the rings has something or d is over (negative: no limit); a signal may end it sooner. With one ring it
// is that ring's cheapest way; with several, epoll over their descriptors. It returns at once while a ring has work, or was never polled, as
// the kernel ring beside an offloaded one when only that is polled: a program that polls one ring sleeps by that ring's Wait.
func (p *Poller) WaitFor(d time.Duration) error {
	rings := p.Rings()
	if len(rings) == 1 {
		return rings[0].Wait(d)
	}
	pending, err := p.Arm()
	if err != nil || pending {
		return err
	}
	if err := p.wait.Wait(d); err != nil {
		return fmt.Errorf("xtreme: poller %q: wait: %w", p.name, err)
	}
	return nil
}

// Arm prepares for waiting on FD: it reports that work is pending already (poll again, do not wait), or makes FD readable on what any of the
// rings has next. It holds until the next Poll.
func (p *Poller) Arm() (pending bool, err error) {
	if err := p.mayUse(); err != nil {
		return false, err
	}
	rings := p.Rings()
	if err := p.watch(rings); err != nil {
		return false, err
	}
	return p.ArmRings()
}

// ArmRings is Arm for a caller that waits on the descriptors of the rings themselves.
func (p *Poller) ArmRings() (pending bool, err error) {
	rings := p.Rings()
	if len(rings) == 0 {
		return false, p.onRingClosed()
	}
	for _, r := range rings {
		if pending, err = r.Arm(); err != nil || pending {
			return pending, err // rings armed so far are disarmed by their next Poll
		}
	}
	for _, r := range rings {
		if ring.IsStarving(r) { // until a later one returned buffers
			return true, nil
		}
	}
	return false, nil
}

// FD is one descriptor for all of the poller's rings, those that come later included, for an epoll set or poll of the application's: see
// Arm. It is the poller's, and stays the same while it lives. Owner only, or anyone before the first Poll.
func (p *Poller) FD() (int, error) {
	if err := p.mayUse(); err != nil {
		return 0, err
	}
	if err := p.watch(p.Rings()); err != nil {
		return 0, err
	}
	return p.wait.FD(), nil
}

// watch keeps the epoll set of FD and Wait in step with the rings, whose number may change while the poller lives. The descriptor of a ring
// that was closed has left the set by that.
func (p *Poller) watch(rings []*ring.Ring) error {
	if p.wait == nil {
		var err error
		if p.wait, err = sys.NewPollSet(); err != nil {
			return fmt.Errorf("xtreme: poller %q: %w", p.name, err)
		}
	}
	p.waits = slices.DeleteFunc(p.waits, func(r *ring.Ring) bool { return !slices.Contains(rings, r) })
	for _, r := range rings {
		if slices.Contains(p.waits, r) {
			continue
		}
		if err := p.wait.Add(r.FD()); err != nil {
			return fmt.Errorf("xtreme: poller %q: %w", p.name, err)
		}
		p.waits = append(p.waits, r)
	}
	return nil
}
