package xtreme

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// ringLists caches the list that Rings returns for a poller with two sets: all is made from the lists kernel and offloaded of the sets, and
// valid as long as the sets return the same two slices.
type ringLists struct{ kernel, offloaded, all []*ring.Ring }

// Rings lists the poller's rings, kernel rings first. A poller has one kernel ring from the start; the ring allocation logic may make more. A
// poller of kind offload has one more ring, over its interfaces, from when a socket can use it. The slice must not be changed. Any
// goroutine.
func (p *Poller) Rings() []*ring.Ring {
	kernel := p.set.Rings()
	if p.offloaded == nil {
		return kernel
	}
	offloaded := p.offloaded.rings()
	if len(offloaded) == 0 {
		return kernel
	}
	l := p.rings.Load()
	if l == nil || !isSameSlice(l.kernel, kernel) || !isSameSlice(l.offloaded, offloaded) {
		l = &ringLists{kernel, offloaded, slices.Concat(kernel, offloaded)}
		p.rings.Store(l)
	}
	return l.all
}

// isSameSlice reports whether a and b are one slice in memory. A set makes a new slice when its rings change, so the same slice has the same
// rings.
func isSameSlice(a, b []*ring.Ring) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// wakeForBuffer ends the sleep of both sets' rings. The pool of a poller with two sets calls it (buffers.Pool.SetReturnCallback) when another
// goroutine returns a lent buffer, because a ring may be waiting for one. Any goroutine.
func (p *Poller) wakeForBuffer() {
	p.set.WakeIfSleeping()
	if set := p.offloaded.set.Load(); set != nil {
		set.WakeIfSleeping()
	}
}

// Poll stores completions of the poller's rings into dst and returns how many; 0 means that there was nothing to do. It never blocks: Wait
// sleeps until there is something. The first call makes the calling goroutine the owner.
//
// Several rings are polled fairly: each may fill its share of dst, room that one ring leaves goes to the others, and each Poll begins with
// another ring. An error always comes with n = 0: if a ring fails when dst has completions of other rings already, the next Poll returns the
// error.
func (p *Poller) Poll(dst []Completion) (int, error) {
	rings := p.Rings()
	if len(rings) == 1 {
		return rings[0].Poll(dst)
	}
	if err := p.check(); err != nil {
		return 0, err
	}
	if len(rings) == 0 {
		return 0, p.closedError()
	}
	if len(dst) == 0 {
		return 0, ring.ErrNoSlice
	}
	if p.self.Load() == 0 { // a ring that was there before may have an owner
		for _, r := range rings {
			if errors.Is(r.Check(), ring.ErrOwner) {
				return 0, ring.ErrOwner
			}
		}
		p.next = 0
	}
	n := 0
	first := p.next
	if first >= len(rings) {
		first = 0
	}
	p.next = first + 1
	left := 0           // rings with work that are still to be polled
	var only *ring.Ring // the ring with work, if left is 1
	for i, r := range rings {
		idle, failing := ring.IdleAndFailing(r)
		if !idle {
			left++
			only = r
		}
		if failing { // it is polled first, so that its error comes with n = 0, and no other one is polled inside a Poll
			first = i
		}
	}
	if left == 1 && p.self.Load() != 0 { // the usual case: the offloaded ring alone
		const before = 0 // no other ring has delivered completions
		n, err := ring.PollBehind(only, dst, before)
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
		left = max(left, 1) // this ring may have got its work after they were counted
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
		if p.self.Load() == 0 {
			p.self.Store(sys.Goroutine())
		}
	}
	return n, nil
}

// check returns ErrOwner if the caller is not the goroutine that polls the rings, and ErrClosed after Close. Each ring checks its owner itself,
// but a ring that was added later and was not polled yet has none, and would accept any goroutine.
func (p *Poller) check() error {
	if self := p.self.Load(); self != 0 && self != sys.Goroutine() {
		return ring.ErrOwner
	}
	if p.closed.Load() {
		return p.closedError()
	}
	return nil
}

// mayUse is check for all calls but Poll: it also asks the kernel rings, because with a single ring only that ring knows the owner.
func (p *Poller) mayUse() error {
	if err := p.set.BeginCall(); errors.Is(err, ring.ErrOwner) {
		return err
	}
	return p.check()
}

// closedError returns ErrClosed with the poller's name.
func (p *Poller) closedError() error {
	return fmt.Errorf("xtreme: poller %q: %w", p.name, ring.ErrClosed)
}

// WaitFor sleeps until one of the rings has something, Wake is called, or d has passed; a negative d is no limit. It returns nil in each case,
// and a signal may end it sooner: call Poll, and wait again. It returns at once if a ring has work, and of several rings if one was never
// polled. A program that polls only some of the rings must therefore sleep by Ring.Wait of those.
func (p *Poller) WaitFor(d time.Duration) error {
	rings := p.Rings()
	if len(rings) == 1 {
		return rings[0].Wait(d)
	}
	pending, err := p.Arm()
	if err != nil || pending {
		return err
	}
	err = p.wait.Wait(d)
	ring.EndSleep(rings[0])
	if err != nil {
		return fmt.Errorf("xtreme: poller %q: wait: %w", p.name, err)
	}
	return nil
}

// Arm prepares for waiting on FD. If it returns true, work is pending already: poll again instead of waiting. If it returns false, FD becomes
// readable when any of the rings has something. It holds until the next Poll.
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

// ArmRings is Arm for a caller that waits on the descriptors of the rings themselves (Ring.FD) instead of FD.
func (p *Poller) ArmRings() (pending bool, err error) {
	rings := p.Rings()
	if len(rings) == 0 {
		return false, p.closedError()
	}
	for _, r := range rings {
		if pending, err = r.Arm(); err != nil || pending {
			return pending, err // the next Poll disarms the rings before this one
		}
	}
	for _, r := range rings {
		if ring.IsStarving(r) { // it waits for buffers, and arming a later ring may have returned some to the pool
			return true, nil
		}
	}
	return false, nil
}

// FD returns one descriptor for all of the poller's rings, those that are added later included, which the application may have in an epoll set
// of its own: see Arm. The descriptor stays the same until the poller closes it. Owner only, or any goroutine before the first Poll.
func (p *Poller) FD() (int, error) {
	if err := p.mayUse(); err != nil {
		return 0, err
	}
	if err := p.watch(p.Rings()); err != nil {
		return 0, err
	}
	return p.wait.FD(), nil
}

// watch adds the descriptors of new rings to the epoll set of FD and Wait, which it makes when it is first needed. The kernel has removed those
// of closed rings from the set.
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
