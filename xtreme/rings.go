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

// Rings lists the owner's rings: kernel rings first. There is one of these from the start; the ring allocation logic may ask for more,
// and an owner of kind offload has one over its interfaces once a socket can use it. The slice must not be changed. Any goroutine.
func (o *Owner) Rings() []*ring.Ring {
	kernel := o.set.Rings()
	if o.off == nil {
		return kernel
	}
	offloaded := o.off.rings()
	if len(offloaded) == 0 {
		return kernel
	}
	t := o.both.Load()
	if t == nil || !same(t.kernel, kernel) || !same(t.offloaded, offloaded) {
		t = &together{kernel, offloaded, slices.Concat(kernel, offloaded)}
		o.both.Store(t)
	}
	return t.all
}

// same tells whether it is the same list: a set makes a new one when it changes.
func same(a, b []*ring.Ring) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// nudge is the pool's return hook of an owner with two sets: a lent buffer came back. Any goroutine.
func (o *Owner) nudge() {
	o.set.Nudge()
	if set := o.off.set.Load(); set != nil {
		set.Nudge()
	}
}

// Poll polls the owner's rings into dst, fairly: each has a share of the room, what one leaves goes to the next, and each Poll
// begins with another ring. Kernel rings with nothing to do are passed over. It never blocks. An error comes with n = 0, always: a failure
// of one ring waits until the completions of that Poll are delivered, and the next Poll begins with it.
func (o *Owner) Poll(dst []Completion) (int, error) {
	rings := o.Rings()
	if len(rings) == 1 {
		return rings[0].Poll(dst)
	}
	if err := o.check(); err != nil {
		return 0, err
	}
	if len(rings) == 0 {
		return 0, o.gone()
	}
	if len(dst) == 0 {
		return 0, ring.ErrNoSlice
	}
	if o.self.Load() == 0 {
		o.next = 0 // the ring that there was from the start knows whether it was polled by another goroutine
	}
	n := 0
	first := o.next % len(rings)
	o.next = first + 1
	left := 0
	for i, r := range rings {
		if !r.Vacant() {
			left++
		}
		if r.Failing() {
			first = i
		}
	}
	for i := range rings {
		r := rings[(first+i)%len(rings)]
		if r.Vacant() {
			continue
		}
		room := len(dst) - n
		if room == 0 {
			o.next = first + i
			break
		}
		left = max(left, 1) // a ring that got work since they were counted counts as well
		share := (room + left - 1) / left
		left--
		k, err := r.PollBehind(dst[n:n+share], n)
		n += k
		switch {
		case err != nil && !o.closed.Load() && errors.Is(r.Check(), ring.ErrClosed):
			continue // posted work closed this ring, not the owner
		case err != nil && n == 0:
			return 0, err
		case err != nil: // ErrOwner, or ErrClosed of the owner: the next Poll returns it
			return n, nil
		}
		if i == 0 && o.self.Load() == 0 {
			o.self.Store(sys.Goroutine())
		}
	}
	return n, nil
}

// check tells whether the caller may use the rings. Each ring knows its owner by itself, but one that came later and was not
// polled yet has none, and would take the first comer.
func (o *Owner) check() error {
	if self := o.self.Load(); self != 0 && self != sys.Goroutine() {
		return ring.ErrOwner
	}
	if o.closed.Load() {
		return o.gone()
	}
	return nil
}

// mayUse is check for everything but Poll: also an owner with one ring, which knows its goroutine, is asked.
func (o *Owner) mayUse() error {
	if err := o.set.BeginCall(); errors.Is(err, ring.ErrOwner) {
		return err
	}
	return o.check()
}

func (o *Owner) gone() error { return fmt.Errorf("xtreme: owner %q: %w", o.name, ring.ErrClosed) }

// Wait sleeps until one of the rings has something or d is over (negative: no limit); a signal may end it sooner. With one ring it
// is that ring's cheapest way; with several, epoll over their descriptors. It returns at once while a ring has work, or was never polled, as
// the kernel ring beside an offloaded one when only that is polled: a caller that polls rings itself polls all of them, or calls Ring.Wait.
func (o *Owner) Wait(d time.Duration) error {
	rings := o.Rings()
	if len(rings) == 1 {
		return rings[0].Wait(d)
	}
	pending, err := o.Arm()
	if err != nil || pending {
		return err
	}
	if err := o.wait.Wait(d); err != nil {
		return fmt.Errorf("xtreme: owner %q: wait: %w", o.name, err)
	}
	return nil
}

// Arm prepares for waiting on FD: it tells that work is pending already (poll again, do not wait), or makes FD readable on what any of the
// rings has next. It holds until the next Poll.
func (o *Owner) Arm() (pending bool, err error) {
	if err := o.mayUse(); err != nil {
		return false, err
	}
	rings := o.Rings()
	if err := o.watch(rings); err != nil {
		return false, err
	}
	return o.ArmRings()
}

// ArmRings is Arm for a caller that waits on the descriptors of the rings themselves.
func (o *Owner) ArmRings() (pending bool, err error) {
	rings := o.Rings()
	if len(rings) == 0 {
		return false, o.gone()
	}
	for _, r := range rings {
		if pending, err = r.Arm(); err != nil || pending {
			return pending, err // rings armed so far are disarmed by their next Poll
		}
	}
	for _, r := range rings {
		if r.Starving() { // until a later one returned buffers
			return true, nil
		}
	}
	return false, nil
}

// FD is one descriptor for all of the owner's rings, those that come later included, for an epoll set or poll of the application's: see
// Arm. It is the owner's, and stays the same while it lives. Owner only, or anyone before the first Poll.
func (o *Owner) FD() (int, error) {
	if err := o.mayUse(); err != nil {
		return 0, err
	}
	if err := o.watch(o.Rings()); err != nil {
		return 0, err
	}
	return o.wait.FD(), nil
}

// watch keeps the epoll set of FD and Wait in step with the rings, whose number may change while the owner lives. The descriptor of a ring
// that was closed has left the set by that.
func (o *Owner) watch(rings []*ring.Ring) error {
	if o.wait == nil {
		var err error
		if o.wait, err = sys.NewPollSet(); err != nil {
			return fmt.Errorf("xtreme: owner %q: %w", o.name, err)
		}
	}
	o.waits = slices.DeleteFunc(o.waits, func(r *ring.Ring) bool { return !slices.Contains(rings, r) })
	for _, r := range rings {
		if slices.Contains(o.waits, r) {
			continue
		}
		if err := o.wait.Add(r.FD()); err != nil {
			return fmt.Errorf("xtreme: owner %q: %w", o.name, err)
		}
		o.waits = append(o.waits, r)
	}
	return nil
}
