package xtreme

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// Owner is the rings that one goroutine polls, and the buffers they share. Everything but Post, Wake, Rings and Name is for
// that goroutine; before the first Poll, set-up may come from any one goroutine.
type Owner struct {
	name   string
	engine *Engine
	region *sys.Region
	pool   *buffers.Pool
	set    *ring.Set
	self   atomic.Uintptr // identity of the goroutine that polls several rings; 0 before
	next   int            // ring that the next Poll begins with
	wait   *sys.PollSet
	waits  []*ring.Ring // the rings in wait
	closed bool
}

func newOwner(e *Engine, name string, c chosen, o *options) (*Owner, error) {
	layout := buffers.DefaultLayout()
	layout.SmallCount = e.settings.SmallBuffers
	layout.LargeCount = e.settings.LargeBuffers
	if o.small != 0 {
		layout.SmallCount, layout.LargeCount = o.small, o.large
	}
	if err := layout.Validate(); err != nil {
		return nil, err
	}
	region, err := sys.NewRegion(sys.RegionConfig{Bytes: layout.Bytes(), HugePages: e.settings.HugePages || o.huge,
		Interface: o.numa, Memory: o.memory})
	if err != nil {
		return nil, err
	}
	owner := &Owner{name: name, engine: e, region: region}
	if owner.pool, err = buffers.New(region.Bytes(), layout); err != nil {
		return nil, errors.Join(err, region.Close())
	}
	owner.pool.SetDebug(e.settings.BufferDebug)
	region.Prefault()
	logic := ring.Logic(e.settings.RingLogic)
	if o.logic != nil {
		logic = *o.logic
	}
	reasons := c.reasons
	for _, n := range region.Notes() {
		reasons = append(reasons[:len(reasons):len(reasons)], ring.Reason{Code: n.Code, Text: n.Text})
	}
	owner.set, err = ring.NewSet(ring.SetConfig{Pool: owner.pool, Driver: c.driver, Kind: string(c.kind), Reasons: reasons,
		Logic: logic, Limit: e.settings.RingLimit})
	if err == nil {
		_, err = owner.set.NewRing()
	}
	if err != nil {
		return nil, errors.Join(err, region.Close())
	}
	return owner, nil
}

// Name is what the owner was called.
func (o *Owner) Name() string { return o.name }

// Engine is what the owner was made from. Any goroutine.
func (o *Owner) Engine() *Engine { return o.engine }

// Rings lists the owner's rings. There is one from the start; the ring allocation logic may ask for more. Any goroutine.
func (o *Owner) Rings() []*ring.Ring { return o.set.Rings() }

// Pool is the buffers the rings share; Alloc on it makes packets for SendPacket.
func (o *Owner) Pool() *buffers.Pool { return o.pool }

// Ledger counts the owner's buffers by state.
func (o *Owner) Ledger() buffers.Ledger { return o.pool.Ledger() }

// Poll polls the owner's rings into dst, fairly: each has a share of the room, what one leaves goes to the next, and each Poll
// begins with another ring. It never blocks.
func (o *Owner) Poll(dst []Completion) (int, error) {
	rings := o.set.Rings()
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
	for i := range rings {
		left := len(rings) - i
		share := (len(dst) - n + left - 1) / left
		if share == 0 {
			o.next = first + i
			break
		}
		k, err := rings[(first+i)%len(rings)].Poll(dst[n : n+share])
		n += k
		if err != nil {
			return n, err
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
	if o.closed {
		return o.gone()
	}
	return nil
}

func (o *Owner) gone() error { return fmt.Errorf("xtreme: owner %q: %w", o.name, ring.ErrClosed) }

// Wait sleeps until one of the rings has something or d is over (negative: no limit); a signal may end it sooner. With one ring it
// is that ring's cheapest way; with several, epoll over their descriptors.
func (o *Owner) Wait(d time.Duration) error {
	rings := o.set.Rings()
	if len(rings) == 1 {
		return rings[0].Wait(d)
	}
	if err := o.check(); err != nil {
		return err
	}
	if err := o.watch(rings); err != nil {
		return err
	}
	for _, r := range rings {
		pending, err := r.Arm()
		if err != nil || pending {
			return err // rings armed so far are disarmed by their next Poll
		}
	}
	if err := o.wait.Wait(d); err != nil {
		return fmt.Errorf("xtreme: owner %q: wait: %w", o.name, err)
	}
	return nil
}

// watch keeps the epoll set of Wait in step with the rings, whose number may change while the owner lives.
func (o *Owner) watch(rings []*ring.Ring) error {
	for i, r := range o.waits {
		if i >= len(rings) || rings[i] != r { // a ring was closed by itself: begin anew
			if err := o.wait.Close(); err != nil {
				return fmt.Errorf("xtreme: owner %q: %w", o.name, err)
			}
			o.wait, o.waits = nil, nil
			break
		}
	}
	if o.wait == nil {
		var err error
		if o.wait, err = sys.NewPollSet(); err != nil {
			return fmt.Errorf("xtreme: owner %q: %w", o.name, err)
		}
	}
	for len(o.waits) < len(rings) {
		r := rings[len(o.waits)]
		if err := o.wait.Add(r.FD()); err != nil {
			return fmt.Errorf("xtreme: owner %q: %w", o.name, err)
		}
		o.waits = append(o.waits, r)
	}
	return nil
}

// Flush starts sends that wait for the next Poll, on every ring.
func (o *Owner) Flush() error {
	if o.closed {
		return o.gone()
	}
	for _, r := range o.set.Rings() {
		if err := r.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// Post runs f on the owner inside its next Poll and wakes it for that. Any goroutine. After Close it answers ErrClosed.
func (o *Owner) Post(f func()) error {
	rings := o.set.Rings()
	if len(rings) == 0 {
		return fmt.Errorf("xtreme: owner %q: post: %w", o.name, ring.ErrClosed)
	}
	return rings[0].Post(f)
}

// Wake ends a Wait, now or the next. Any goroutine.
func (o *Owner) Wake() {
	if rings := o.set.Rings(); len(rings) > 0 {
		rings[0].Wake()
	}
}

// HeldError tells that the application still held packets when the owner was closed. Their memory stays mapped, so that they
// stay valid; it is lost to the process.
type HeldError struct{ Ledger buffers.Ledger }

// Error is the failure in a sentence.
func (e *HeldError) Error() string {
	return fmt.Sprintf("xtreme: closed with packets still held: %v", e.Ledger)
}

// Close closes the rings (sockets still open are aborted), checks that every buffer came home and frees the memory. With packets
// still held or lent it is a *HeldError and the memory stays. Owner only, or anyone before the first Poll.
func (o *Owner) Close() error {
	if o.closed {
		return o.gone()
	}
	err := o.set.Close()
	if errors.Is(err, ring.ErrOwner) {
		return fmt.Errorf("xtreme: owner %q: close: %w", o.name, err)
	}
	o.closed = true
	if o.wait != nil {
		err = errors.Join(err, o.wait.Close())
	}
	o.engine.forget(o)
	o.pool.Reclaim()
	if l := o.pool.Ledger(); l.Free != l.Total {
		return errors.Join(err, &HeldError{l})
	}
	return errors.Join(err, o.pool.Verify(), o.region.Close())
}
