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

// Poller is the rings that one goroutine polls, and the buffers they share. Everything but what says "any goroutine" is for that
// goroutine: others get ErrOwner, or the zero value where there is no error result. Before the first Poll, set-up may come from any one
// goroutine.
type Poller struct {
	name       string
	engine     *Engine
	region     *sys.Region
	pool       *buffers.DriverPool
	kind       conf.RingKind // as asked for
	set        *ring.Set     // of kernel rings
	mayOffload offloadChoice // by SetOffload
	offloaded  *offloading   // what pollers of kind offload have beside; else nil
	rings      atomic.Pointer[together]
	self       atomic.Uintptr // identity of the goroutine that polls several rings; 0 before
	next       int            // ring that the next Poll begins with
	wait       *sys.PollSet
	waits      []*ring.Ring    // the rings in wait
	canceled   <-chan struct{} // of the context of the last Wait, which wakes the poller when it ends
	unwatch    func() bool     // ends that
	peer       netip.AddrPort  // whom the socket that is being made will be connected to
	making     bool            // one of the calls that make sockets is under way
	closed     atomic.Bool
}

func newPoller(e *Engine, name string, kind conf.RingKind, c chosen, o *PollerConfig) (*Poller, error) {
	if err := o.fits(c, kind); err != nil {
		return nil, err
	}
	layout := buffers.DefaultLayout()
	layout.SmallCount, layout.LargeCount = e.settings.SmallBuffers+e.settings.SendBuffers, e.settings.LargeBuffers
	sends := e.settings.SendBuffers
	if o.SmallBuffers != 0 {
		layout.SmallCount, sends = o.SmallBuffers, 0
	}
	if o.LargeBuffers != 0 {
		layout.LargeCount = o.LargeBuffers
	}
	if err := layout.Validate(); err != nil {
		return nil, err
	}
	region, err := sys.NewRegion(sys.RegionConfig{Bytes: layout.Bytes(), HugePages: e.settings.HugePages || o.HugePages,
		Interface: o.NearInterface, Memory: o.Memory})
	if err != nil {
		return nil, err
	}
	poller := &Poller{name: name, engine: e, region: region, kind: kind}
	if poller.pool, err = buffers.New(region.Bytes(), layout); err != nil {
		return nil, errors.Join(err, region.Close())
	}
	if err := reserve(poller.pool, sends); err != nil {
		return nil, errors.Join(err, region.Close())
	}
	poller.pool.SetDebug(e.settings.BufferDebug)
	poller.pool.SetContiguous(region.Contiguous())
	if !o.MemoryOnDemand {
		region.Prefault()
	}
	logic := ring.Logic(e.settings.RingLogic)
	if o.RingLogic != nil {
		logic = *o.RingLogic
	}
	var notes []ring.Reason
	for _, n := range region.Notes() {
		notes = append(notes, ring.Reason{Code: n.Code, Text: n.Text})
	}
	sc := ring.SetConfig{Transport: kernel.New(), Pool: poller.pool, Driver: c.driver, Kind: string(c.kind), Reasons: slices.Concat(c.reasons, notes), Logic: logic,
		Limit: e.settings.RingLimit, Place: poller.place, Siblings: poller.Rings, Changed: e.rings.change}
	if c.kind == conf.RingUring { // an epoll ring has no queue of sends: its hint is a batch of events
		sc.Entries = e.settings.RingEntries
	}
	if c.offload {
		poller.offloaded = newOffloading(poller, o, logic, notes)
	}
	poller.set, err = ring.NewSet(sc)
	if err == nil {
		_, err = poller.set.NewRing()
	}
	if err != nil {
		return nil, errors.Join(err, region.Close())
	}
	return poller, nil
}

// reserve keeps buffers of each class for sending, which receiving never takes: an eighth, and of the small ones at least as many as the
// settings add for sending (VMA_TX_BUFS). A class of fewer than eight has none.
func reserve(p *buffers.DriverPool, sends int) error {
	l := p.Layout()
	small := min(max(l.SmallCount/8, sends), max(l.SmallCount-1, 0))
	return errors.Join(p.SetReserve(buffers.Small, small), p.SetReserve(buffers.Large, l.LargeCount/8))
}

// Name is what the poller was called. Any goroutine.
func (p *Poller) Name() string { return p.name }

// Engine is what the poller was made from. Any goroutine.
func (p *Poller) Engine() *Engine { return p.engine }

// Pool is the buffers the rings share; Alloc on it, which is the poller's, makes packets for SendPacket. Any goroutine.
func (p *Poller) Pool() *buffers.Pool { return &p.pool.Pool }

// Ledger counts the poller's buffers by state; another goroutine gets the zero Ledger.
func (p *Poller) Ledger() buffers.Ledger {
	if p.set.BeginCall() == ring.ErrOwner {
		return buffers.Ledger{}
	}
	return p.pool.Ledger()
}

// Flush starts sends that wait for the next Poll, on every ring.
func (p *Poller) Flush() error {
	if err := p.mayUse(); err != nil {
		return err
	}
	for _, r := range p.Rings() {
		if err := r.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// Post runs f on the poller inside its next Poll and wakes it for that. With several rings the first of those that were polled runs f, so that
// a program that polls one ring itself gets it there; before any was polled, it is the first of Rings. Any goroutine. After Close it answers
// ErrClosed.
func (p *Poller) Post(f func()) error {
	r := p.polledRing()
	if r == nil {
		return fmt.Errorf("xtreme: poller %q: post: %w", p.name, ring.ErrClosed)
	}
	return r.Post(f)
}

// Wake ends a Wait, now or the next, also Ring.Wait of the ring that Post uses. Any goroutine.
func (p *Poller) Wake() {
	if r := p.polledRing(); r != nil {
		r.Wake()
	}
}

// polledRing is the ring for what other goroutines leave; nil after Close.
func (p *Poller) polledRing() *ring.Ring {
	if len(p.set.Rings()) == 0 {
		return nil
	}
	rings := p.Rings()
	for _, r := range rings {
		if r.IsPolled() {
			return r
		}
	}
	return rings[0]
}

// HeldError reports that the application still held packets when the poller was closed. Their memory stays mapped, so that they
// stay valid; it is lost to the process.
type HeldError struct{ Ledger buffers.Ledger }

// Error is the failure in a sentence.
func (e *HeldError) Error() string {
	return fmt.Sprintf("xtreme: closed with packets still held: %v", e.Ledger)
}

// Close closes the rings and all sockets (those still open are aborted), checks that every buffer is free and frees the memory. The pool
// gives out nothing any more. With packets still held or lent it is a *HeldError and the memory stays. Owner only, or anyone before the
// first Poll; from another goroutine (ErrOwner) and inside a callback (EDEADLK) it changes nothing.
func (p *Poller) Close() error {
	err := p.mayClose()
	if err != nil {
		return err
	}
	p.forgetContext()
	err = p.set.Close()
	p.closed.Store(true)
	if p.offloaded != nil {
		err = errors.Join(err, p.offloaded.close())
	}
	if p.wait != nil {
		err = errors.Join(err, p.wait.Close())
	}
	p.engine.forget(p)
	p.pool.Close()
	if l := p.pool.Ledger(); l.Free != l.Total {
		return errors.Join(err, &HeldError{l})
	}
	return errors.Join(err, p.pool.Verify(), p.region.Close())
}

// mayClose reports why the poller cannot be closed, if so.
func (p *Poller) mayClose() error {
	err := p.mayUse()
	if errors.Is(err, ring.ErrClosed) {
		return err
	}
	if err == nil {
		err = p.set.MayClose()
	}
	if err == nil && p.offloaded != nil {
		err = p.offloaded.mayClose()
	}
	if err != nil {
		return fmt.Errorf("xtreme: poller %q: close: %w", p.name, err)
	}
	return nil
}
