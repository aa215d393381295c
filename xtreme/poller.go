package xtreme

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/cure"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/record"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// Poller has the rings that one goroutine polls, the buffers that they share, and the calls that make sockets. The goroutine that calls Poll
// first is its owner. Only the owner may call its methods, except those whose doc says "any goroutine"; other goroutines get ErrOwner, or the
// zero value where there is no error result. Before the first Poll any one goroutine may set it up.
type Poller struct {
	name       string
	engine     *Engine
	region     *sys.Region
	memory     *memoryClaim // of the caller's memory under region
	pool       *buffers.DriverPool
	kind       conf.RingKind             // as it was asked for
	set        *ring.Set                 // of kernel rings
	mayOffload offloadChoice             // of SetOffload
	offloaded  *offloading               // of a poller of kind offload; else nil
	rings      atomic.Pointer[ringLists] // the list that Rings returned last, if there is an offloaded ring
	self       atomic.Uintptr            // identity of the owner, once it has polled several rings; 0 before
	next       int                       // index of the ring that the next Poll begins with
	wait       *sys.PollSet              // of FD and of waiting for several rings; nil until one of them is used
	waits      []*ring.Ring              // the rings in wait
	canceled   <-chan struct{}           // Done of the context that wakes the poller when it ends: that of the last Wait
	unwatch    func() bool               // ends that
	peer       netip.AddrPort            // UDPConfig.Remote of the socket that is being made, for the rules
	making     bool                      // a call that makes a socket is under way
	closed     atomic.Bool
	monitor    *monitor // nil: nothing is published
	tracer     *tracer  // of calls and packets, in the log
	record     *record.Scope
}

// newPoller makes a poller for Engine.NewPoller: region, pool, the set of kernel rings with its first ring, and for kind offload what the
// offloaded ring will need. c is the kind of kernel ring. A configuration's field comes before the engine's setting.
func newPoller(e *Engine, name string, kind conf.RingKind, c chosen, o *PollerConfig) (*Poller, error) {
	if err := o.fits(c, kind); err != nil {
		return nil, err
	}
	layout := buffers.DefaultLayout()
	layout.SmallCount, layout.LargeCount = e.settings.SmallBuffers+e.settings.SendBuffers, e.settings.LargeBuffers
	forSending := e.settings.SendBuffers
	if o.SmallBuffers != 0 {
		layout.SmallCount, forSending = o.SmallBuffers, 0
	}
	if o.LargeBuffers != 0 {
		layout.LargeCount = o.LargeBuffers
	}
	if err := layout.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", o.saysBuffers(&e.settings), err)
	}
	region, err := sys.NewRegion(sys.RegionConfig{Bytes: layout.Bytes(), HugePages: e.settings.HugePages || o.HugePages,
		Interface: o.NearInterface, Memory: o.Memory, Aligned: c.offload}) // XDP_UMEM_REG takes whole pages
	if err != nil {
		return nil, err
	}
	poller := &Poller{name: name, engine: e, region: region, kind: kind, tracer: newTracer(e.Logger(), name)}
	if o.Memory != nil {
		if poller.memory, err = claimMemory(name, region); err != nil {
			return nil, errors.Join(err, region.Close())
		}
	}
	if poller.pool, err = buffers.New(region.Bytes(), layout); err != nil {
		return nil, errors.Join(err, poller.closeMemory())
	}
	if err := reserveForSending(poller.pool, forSending); err != nil {
		return nil, errors.Join(err, poller.closeMemory())
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
	e.warnCurable(notes, cure.Place{HugePages: hugePagesFor(layout.Bytes())})
	sc := ring.SetConfig{Transport: kernel.New(), Pool: poller.pool, Driver: c.driver, Kind: string(c.kind), Reasons: slices.Concat(c.reasons, notes), Logic: logic,
		Limit: e.settings.RingLimit, Place: poller.place, PlaceStreams: c.offload && e.settings.Offload.TCP, Siblings: poller.Rings,
		Changed: e.rings.onRingChanged, Trace: poller.tracer.trace}
	if c.kind == conf.RingUring { // an epoll ring has no queue of sends: its hint is a batch of events
		sc.Entries = e.settings.RingEntries
	}
	poller.record = e.recorder.Scope(name)
	poller.monitor = newMonitor(e.stats, poller)
	poller.monitor.configure(&sc, e.socketReport)
	if c.offload {
		poller.offloaded = newOffloading(poller, o, logic, notes)
	}
	poller.set, err = ring.NewSet(sc)
	if err == nil {
		if _, err = poller.set.NewRing(); err != nil {
			err = errors.Join(err, poller.set.Close())
		}
	}
	if err != nil {
		poller.monitor.close()
		return nil, errors.Join(err, poller.closeMemory())
	}
	return poller, nil
}

// closeMemory frees the memory of the buffers; a caller's memory may be another poller's from now on.
func (p *Poller) closeMemory() error {
	p.memory.release()
	return p.region.Close()
}

// reserveForSending sets aside buffers of each class that receiving never takes: an eighth, and of the small ones at least as many as the
// settings add for sending (VMA_TX_BUFS). Nothing is set aside of a class of fewer than eight.
func reserveForSending(p *buffers.DriverPool, added int) error {
	l := p.Layout()
	small := min(max(l.SmallCount/8, added), max(l.SmallCount-1, 0))
	return errors.Join(p.SetReserve(buffers.Small, small), p.SetReserve(buffers.Large, l.LargeCount/8))
}

// Name returns the name that NewPoller was given. Any goroutine.
func (p *Poller) Name() string { return p.name }

// Engine returns the engine that made the poller. Any goroutine.
func (p *Poller) Engine() *Engine { return p.engine }

// Pool returns the buffers that the poller's rings share. Pool.Alloc makes packets for Socket.SendPacket; only the owner may call it. Any
// goroutine may call Pool itself.
func (p *Poller) Pool() *buffers.Pool { return &p.pool.Pool }

// Ledger counts the poller's buffers by state; another goroutine gets the zero Ledger.
func (p *Poller) Ledger() buffers.Ledger {
	if p.set.BeginCall() == ring.ErrOwner {
		return buffers.Ledger{}
	}
	return p.pool.Ledger()
}

// MarkWork says what the poller's goroutine does from now on, until the next mark or the end of the next Poll, so that a long gap between two
// polls is named by it in the journal (xtstat events). For loops around a poller, as package reactor has one. Owner only, another goroutine's
// mark does nothing. It costs a reading of the processor's counter.
func (p *Poller) MarkWork(w Work) {
	if p.monitor != nil && p.set.BeginCall() != ring.ErrOwner {
		p.monitor.loop.Mark(w)
	}
}

// Flush starts at once, on every ring, the sends that would start with the next Poll. Sends wait for each other because they can share a system
// call. A program calls Flush when it will be some time before it polls again.
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

// Post makes the poller's goroutine run f inside its next Poll, and ends a Wait for that. Any goroutine. After Close it returns ErrClosed, and
// functions that were posted before and have not run yet are dropped.
//
// With several rings it is the first one that the program polls whose Poll runs f, or, before any was polled, the first of Rings. So a program
// that polls a single ring by itself gets f there.
func (p *Poller) Post(f func()) error {
	r := p.polledRing()
	if r == nil {
		return fmt.Errorf("xtreme: poller %q: post: %w", p.name, ring.ErrClosed)
	}
	return r.Post(f)
}

// Wake ends the Wait that is under way, or else the next one; also a Ring.Wait of the ring that Post uses. Any goroutine.
func (p *Poller) Wake() {
	if r := p.polledRing(); r != nil {
		r.Wake()
	}
}

// polledRing returns the ring through which other goroutines reach the owner (Post, Wake): the first one that was polled, else the first; nil
// after Close.
func (p *Poller) polledRing() *ring.Ring {
	rings := p.Rings() // read once: the owner may be closing the poller, and the next list may be empty
	if len(rings) == 0 {
		return nil
	}
	for _, r := range rings {
		if r.IsPolled() {
			return r
		}
	}
	return rings[0]
}

// HeldError is the error of Poller.Close when the application has not released all packets. The poller is closed nevertheless. The memory of
// its buffers stays mapped, so that the packets stay valid, and is not freed before the process ends; memory of the caller's
// (PollerConfig.Memory) is refused to other pollers for as long.
type HeldError struct {
	Ledger buffers.Ledger // the buffers by state when the poller was closed
}

// Error is the failure in a sentence, with the counts of the buffers.
func (e *HeldError) Error() string {
	return fmt.Sprintf("xtreme: closed with packets still held: %v", e.Ledger)
}

// Close aborts the sockets that are still open, closes the rings, checks that every buffer is free, and frees the memory. Packets that the
// application still holds or has lent make it a *HeldError: the poller is closed then, and the memory stays. Shutdown closes in good order
// instead. Owner only, or any goroutine before the first Poll; from another goroutine (ErrOwner) and inside a callback (EDEADLK) Close changes
// nothing.
func (p *Poller) Close() error {
	err := p.mayClose()
	if err != nil {
		return err
	}
	p.forgetContext() // of the last Wait
	err = p.set.Close()
	p.closed.Store(true)
	if p.offloaded != nil {
		err = errors.Join(err, p.offloaded.close())
	}
	if p.wait != nil {
		err = errors.Join(err, p.wait.Close())
	}
	p.monitor.close()
	p.engine.forgetPoller(p)
	p.pool.Close()
	if l := p.pool.Ledger(); l.Free != l.Total {
		p.memory.hold()
		return errors.Join(err, &HeldError{l})
	}
	return errors.Join(err, p.pool.Verify(), p.closeMemory())
}

// mayClose returns the error with which Close and Shutdown must fail now: the wrong goroutine, a callback that is running, or a poller that is
// closed already; nil if the poller can be closed.
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
