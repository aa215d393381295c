package xtreme

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// Owner is the rings that one goroutine polls, and the buffers they share. Everything but what says "any goroutine" is for that
// goroutine: others get ErrOwner, or the zero value where there is no error result. Before the first Poll, set-up may come from any one
// goroutine.
type Owner struct {
	name       string
	engine     *Engine
	region     *sys.Region
	pool       *buffers.Pool
	kind       conf.RingKind // as asked for
	set        *ring.Set     // of kernel rings
	mayOffload offloadChoice // by SetOffload
	off        *offloading   // what owners of kind offload have beside; else nil
	both       atomic.Pointer[together]
	self       atomic.Uintptr // identity of the goroutine that polls several rings; 0 before
	next       int            // ring that the next Poll begins with
	wait       *sys.PollSet
	waits      []*ring.Ring   // the rings in wait
	peer       netip.AddrPort // whom the socket that is being made will be connected to
	making     bool           // one of the calls that make sockets is under way
	closed     atomic.Bool
}

func newOwner(e *Engine, name string, kind conf.RingKind, c chosen, o *options) (*Owner, error) {
	switch {
	case c.offload:
	case o.interfaces != nil:
		return nil, fmt.Errorf("option Interfaces is for rings of kind %s, this is %s", conf.RingOffload, kind)
	case o.checksum != "":
		return nil, fmt.Errorf("option Checksum is for rings of kind %s, this is %s", conf.RingOffload, kind)
	case o.time != "":
		return nil, fmt.Errorf("option OffloadTime is for rings of kind %s, this is %s", conf.RingOffload, kind)
	}
	layout := buffers.DefaultLayout()
	layout.SmallCount = e.settings.SmallBuffers + e.settings.SendBuffers
	layout.LargeCount = e.settings.LargeBuffers
	sends := e.settings.SendBuffers
	if o.small != 0 { // the option comes before all three settings
		layout.SmallCount, layout.LargeCount, sends = o.small, o.large, 0
	}
	if err := layout.Validate(); err != nil {
		return nil, err
	}
	region, err := sys.NewRegion(sys.RegionConfig{Bytes: layout.Bytes(), HugePages: e.settings.HugePages || o.huge,
		Interface: o.numa, Memory: o.memory})
	if err != nil {
		return nil, err
	}
	owner := &Owner{name: name, engine: e, region: region, kind: kind}
	if owner.pool, err = buffers.New(region.Bytes(), layout); err != nil {
		return nil, errors.Join(err, region.Close())
	}
	if err := reserve(owner.pool, sends); err != nil {
		return nil, errors.Join(err, region.Close())
	}
	owner.pool.SetDebug(e.settings.BufferDebug)
	owner.pool.SetContiguous(region.Contiguous())
	region.Prefault()
	logic := ring.Logic(e.settings.RingLogic)
	if o.logic != nil {
		logic = *o.logic
	}
	var notes []ring.Reason
	for _, n := range region.Notes() {
		notes = append(notes, ring.Reason{Code: n.Code, Text: n.Text})
	}
	sc := ring.SetConfig{Transport: kernel.New(), Pool: owner.pool, Driver: c.driver, Kind: string(c.kind), Reasons: slices.Concat(c.reasons, notes), Logic: logic,
		Limit: e.settings.RingLimit, Place: owner.place, Siblings: owner.Rings, Changed: e.rings.change}
	if c.kind == conf.RingUring { // an epoll ring has no queue of sends: its hint is a batch of events
		sc.Entries = e.settings.RingEntries
	}
	if c.offload {
		owner.off = newOffloading(owner, o, logic, notes)
	}
	owner.set, err = ring.NewSet(sc)
	if err == nil {
		_, err = owner.set.NewRing()
	}
	if err != nil {
		return nil, errors.Join(err, region.Close())
	}
	return owner, nil
}

// reserve keeps buffers of each class for sending, which receiving never takes: an eighth, and of the small ones at least as many as the
// settings add for sending (VMA_TX_BUFS). A class of fewer than eight has none.
func reserve(p *buffers.Pool, sends int) error {
	l := p.Layout()
	small := min(max(l.SmallCount/8, sends), max(l.SmallCount-1, 0))
	return errors.Join(p.SetReserve(buffers.Small, small), p.SetReserve(buffers.Large, l.LargeCount/8))
}

// Name is what the owner was called. Any goroutine.
func (o *Owner) Name() string { return o.name }

// Engine is what the owner was made from. Any goroutine.
func (o *Owner) Engine() *Engine { return o.engine }

// Pool is the buffers the rings share; Alloc on it, which is the owner's, makes packets for SendPacket. Any goroutine.
func (o *Owner) Pool() *buffers.Pool { return o.pool }

// Ledger counts the owner's buffers by state; another goroutine gets the zero Ledger.
func (o *Owner) Ledger() buffers.Ledger {
	if o.set.BeginCall() == ring.ErrOwner {
		return buffers.Ledger{}
	}
	return o.pool.Ledger()
}

// Flush starts sends that wait for the next Poll, on every ring.
func (o *Owner) Flush() error {
	if err := o.mayUse(); err != nil {
		return err
	}
	for _, r := range o.Rings() {
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

// Close closes the rings and all sockets (those still open are aborted), checks that every buffer is free and frees the memory. The pool
// gives out nothing any more. With packets still held or lent it is a *HeldError and the memory stays. Owner only, or anyone before the first Poll; from another goroutine
// (ErrOwner) and inside a hook (EDEADLK) it changes nothing.
func (o *Owner) Close() error {
	err := o.mayUse()
	if errors.Is(err, ring.ErrClosed) {
		return err
	}
	if err == nil {
		err = o.set.MayClose()
	}
	if err == nil && o.off != nil {
		err = o.off.mayClose()
	}
	if err != nil {
		return fmt.Errorf("xtreme: owner %q: close: %w", o.name, err)
	}
	err = o.set.Close()
	o.closed.Store(true)
	if o.off != nil {
		err = errors.Join(err, o.off.close())
	}
	if o.wait != nil {
		err = errors.Join(err, o.wait.Close())
	}
	o.engine.forget(o)
	o.pool.Close()
	if l := o.pool.Ledger(); l.Free != l.Total {
		return errors.Join(err, &HeldError{l})
	}
	return errors.Join(err, o.pool.Verify(), o.region.Close())
}
