package buffers

import (
	"fmt"
	"math"
	"sync/atomic"
)

// none ends a chain of buffer indexes.
const none = math.MaxUint32

// meta describes one buffer in 32 bytes, two to a cache line. There is no pointer in it: the garbage collector skips
// the slice, and being on the heap it is seen by the race detector, which is blind to mapped memory.
type meta struct {
	off     uint32 // payload's place in the region; of the first unread byte of the packet, if this is its head
	len     uint32 // payload bytes there
	next    uint32 // next buffer of the chain, or none
	gen     uint32 // generation of the packet that starts here: moves when its owner's handle is used up
	bufGen  uint32 // generation of the buffer: moves when it becomes free
	account uint32 // slot of the account that the buffer is charged to; 0: of none
	refs    uint16 // owner's packet references; 0 except in a head
	bufRefs uint16 // references taken by Buffer.Retain
	state   state
	flags   uint8
}

// Flags of a head; all are rare, so that one comparison with 0 keeps them off the fast path.
const (
	flagLoan = 1 << iota // other goroutines may hold references: loans counts them
	flagRead             // Pull was used: chains[head].front is valid
)

// chain holds what is known of a packet of several buffers, at its head's index. Kept apart from meta because most
// packets have one buffer.
type chain struct {
	tail  uint32 // last buffer; valid when the head has a next
	count uint32 // buffers; valid when the head has a next
	bytes uint32 // payload of all; valid when the head has a next
	front uint32 // buffer with the first unread byte; valid with flagRead
}

// Pool is a region of memory divided into reference-counted buffers. Applications take buffers for sending from it (Alloc) and read how
// full it is; what only rings and drivers may do with it are methods of DriverPool. The methods are for one goroutine, the owner, unless
// their comment says otherwise; nothing on the owner's path is atomic.
type Pool struct {
	mem    []byte
	meta   []meta
	chains []chain
	layout Layout

	small    uint32 // buffers below this index are small
	strides  [NumClasses]uint32
	largeOff uint32             // start of the large buffers minus what their indexes, which begin at small, would add
	inverse  [NumClasses]uint64 // of strides, for Locate

	free  [NumClasses]freeList
	avail [NumClasses]int32 // free and filling buffers
	apart [NumClasses]int32 // of those, the ones that frames on some queue of a card cannot find, see ReadyQueue
	freed uint64

	accounts     []account // by slot; the first is account 0, to which buffers are charged that no account was given for
	credits      []uint32  // slots of accounts with credit; has the capacity of freeAccounts
	filled       []uint32  // by buffer: payload bytes that its account gets as credit; nil while no account asks
	freeAccounts []uint32  // never longer than accounts, and has its capacity: freeBuffer must not allocate

	queues readyQueues

	stats Stats
	debug atomic.Pointer[history]

	contiguous bool // see SetContiguous
	closed     bool // see Close

	// What other goroutines touch, a line away from what the owner writes per packet.
	_              [line]byte
	loans          []atomic.Uint64
	links          []uint32 // links[i]: index+1 below i on the return stack
	returnCallback atomic.Pointer[func()]
	_              [line]byte
	top            atomic.Uint32 // index+1 of the head that was returned last; the other returned heads follow by links; 0: none
	stale          atomic.Uint64 // stale releases by other goroutines
	_              [line]byte
}

// freeList is last in, first out: the buffer released last is the one most likely still in the cache.
type freeList struct {
	stack   []uint32
	n       int
	reserve int // of n, how many Take leaves to senders: kept less queued, and lastFree
	kept    int // of SetReserve
	queued  int // of AddQueued
	// lastFree: of n, how many are left to AllocTransmit and TakeForCopy (KeepForSegments).
	lastFree int
}

func (f *freeList) push(i uint32) {
	f.stack[f.n] = i
	f.n++
}

// New divides mem, which should start at a page boundary, among the buffers of l; bytes of mem beyond l.Bytes() are not used. The code that
// builds a ring calls it, and hands the embedded Pool to the application. The pool never allocates, moves or unmaps mem: the caller
// keeps it mapped as long as any handle may be used. Error: ErrSize, for a layout that Validate refuses or a mem that is too short.
func New(mem []byte, l Layout) (*DriverPool, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	if len(mem) < l.Bytes() {
		return nil, fmt.Errorf("buffers: region has %d bytes, layout needs %d: %w", len(mem), l.Bytes(), ErrSize)
	}
	total := l.SmallCount + l.LargeCount
	p := &DriverPool{Pool{
		mem:      mem[:l.Bytes():l.Bytes()],
		meta:     make([]meta, total),
		chains:   make([]chain, total),
		layout:   l,
		small:    uint32(l.SmallCount),
		accounts: make([]account, 1, 64),

		freeAccounts: make([]uint32, 0, 64),

		loans: make([]atomic.Uint64, total),
		links: make([]uint32, total),
	}}
	p.divide()
	for c := Small; c < NumClasses; c++ {
		p.free[c].stack = make([]uint32, l.count(c))
		p.avail[c] = int32(l.count(c))
	}
	// Backwards, so that the first ones taken are the lowest: a quiet program touches few pages.
	for i := total - 1; i >= 0; i-- {
		p.meta[i].next = none
		p.meta[i].off = p.base(uint32(i))
		p.free[p.classOf(uint32(i))].push(uint32(i))
	}
	return p, nil
}

// divide computes where the buffers are.
func (p *Pool) divide() {
	for c := Small; c < NumClasses; c++ {
		p.strides[c] = uint32(p.layout.Stride(c))
		p.inverse[c] = inverse(p.strides[c])
	}
	// In 32-bit arithmetic, which may wrap here and wraps back in base.
	p.largeOff = p.small*p.strides[Small] - p.small*p.strides[Large]
}

// Layout is the layout given to New. Any goroutine.
func (p *Pool) Layout() Layout { return p.layout }

// SetContiguous says that the region's bytes are neighbours in physical memory too, so that a card can have buffers that cross pages. Before
// the pool is given to a driver.
func (p *DriverPool) SetContiguous(yes bool) { p.contiguous = yes }

// Contiguous is what SetContiguous said. Any goroutine.
func (p *Pool) Contiguous() bool { return p.contiguous }

// Alloc takes a buffer to be sent, of the smallest class whose payload holds n bytes: its Bytes are n long, their
// content undefined. A small request is served from the large class when the small one is empty. The packet is held by
// the caller and charged to no account. The pool of a poller with TCP of its own keeps the last 128 free small buffers, or one in 8 of them if
// that is less, for acknowledgements and copies. Errors: ErrSize (no class is that large), ErrExhausted, ErrClosed.
func (p *Pool) Alloc(n int) (Packet, error) { return p.alloc(n, false) }

// alloc is Alloc; with all it takes the buffers of KeepForSegments too.
func (p *Pool) alloc(n int, all bool) (Packet, error) {
	if p.closed {
		return Packet{}, ErrClosed
	}
	if n < 0 {
		return Packet{}, fmt.Errorf("buffers: Alloc: n is %d: %w", n, ErrSize)
	}
	fits := false
	for c := Small; c < NumClasses; c++ {
		if n > p.layout.size(c) || p.layout.count(c) == 0 {
			continue
		}
		fits = true
		keep := p.free[c].lastFree
		if all {
			keep = 0
		}
		if i, ok := p.take(c, keep); ok {
			pk := p.fill(i, p.layout.Headroom, n, 0)
			p.meta[i].state = stateHeld
			if d := p.debug.Load(); d != nil {
				d.held(d.packets, i, pk.gen)
			}
			return pk, nil
		}
	}
	if !fits {
		return Packet{}, fmt.Errorf("buffers: Alloc: n is %d, the largest buffer holds %d: %w",
			n, max(p.layout.SmallSize*min(1, p.layout.SmallCount), p.layout.LargeSize*min(1, p.layout.LargeCount)), ErrSize)
	}
	p.stats.Exhausted++
	return Packet{}, ErrExhausted
}

// SetReserve keeps n free buffers of class c for sending: Take, by which packets are received, leaves the last n to Alloc and AllocTransmit,
// of which KeepForSegments keeps some from Alloc. 0, as New has it, keeps none. Before the pool is given to a driver. Error:
// ErrSize when n is negative or the class has no more buffers than that.
func (p *DriverPool) SetReserve(c Class, n int) error {
	if c >= NumClasses || n < 0 || n > 0 && n >= p.layout.count(c) {
		return fmt.Errorf("buffers: SetReserve: class %v: n is %d: %w", c, n, ErrSize)
	}
	p.free[c].kept = n
	p.free[c].updateReserve()
	return nil
}

// Reserve is how many buffers of class c receiving leaves: those of SetReserve and of KeepForSegments.
func (p *Pool) Reserve(c Class) int {
	if c >= NumClasses {
		return 0
	}
	return p.free[c].kept + p.free[c].lastFree
}

// ReceiveShare is how many buffers of class c receiving may take at the most: all but the reserve. Any goroutine, once the pool is given to a
// driver.
func (p *Pool) ReceiveShare(c Class) int {
	if c >= NumClasses {
		return 0
	}
	return p.layout.count(c) - p.free[c].kept - p.free[c].lastFree
}

// forReceiving is how many buffers of class c receiving can still get: those that lie ready, and the free ones beyond the reserve.
func (p *Pool) forReceiving(c Class) int32 {
	return p.avail[c] - int32(min(p.free[c].n, p.free[c].reserve))
}

// forAnyQueue is how many of those a socket's frames find at the least, whichever queue of a card they arrive on.
func (p *Pool) forAnyQueue(c Class) int32 { return p.forReceiving(c) - p.apart[c] }

// CanReceive reports whether a buffer of class c lies ready for receiving, or Take could get one: the reserve for sending does not count.
func (p *DriverPool) CanReceive(c Class) bool {
	return c < NumClasses && p.forReceiving(c) > 0
}

// Close reclaims the packets that other goroutines have released, and makes Alloc return ErrClosed. The poller calls it before it unmaps the
// memory, which it may do only if Ledger counts every buffer as free. Live handles stay valid, and are released as before.
func (p *DriverPool) Close() {
	p.Reclaim()
	p.closed = true
}

// Available is the number of buffers of class c that are free, the reserve included, or lie ready to be filled by the kernel or a card. 0 for a
// class that does not exist.
func (p *Pool) Available(c Class) int {
	if c >= NumClasses {
		return 0
	}
	return int(p.avail[c])
}

// Free is the number of buffers of class c on the free list, the reserve included. Those that lie ready for a card are not free; Available
// counts them too.
func (p *Pool) Free(c Class) int {
	if c >= NumClasses {
		return 0
	}
	return p.free[c].n
}

// Freed counts the returns of buffers to the free lists since New. A caller that found none compares it with an earlier value: while it
// has not changed, another try fails too.
func (p *Pool) Freed() uint64 { return p.freed }

// Exhausted is Stats.Exhausted: it has grown while somebody went without a buffer.
func (p *Pool) Exhausted() uint64 { return p.stats.Exhausted }

// Stats are totals since New.
type Stats struct {
	Exhausted     uint64 // calls of Take or Alloc that found no free buffer
	StaleReleases uint64 // releases of handles already used up, by any goroutine: each is a bug of the holder
	StaleUses     uint64 // other operations refused because the handle was used up
	StaleAccounts uint64 // buffers filled for an account that no longer exists, and charged to none
	Loans         uint64 // packets given to other goroutines
	Returned      uint64 // buffers that came back from other goroutines
}

// Stats returns the counters.
func (p *Pool) Stats() Stats {
	s := p.stats
	s.StaleReleases += p.stale.Load()
	return s
}

// base is where buffer i starts in the region.
func (p *Pool) base(i uint32) uint32 {
	if i < p.small {
		return i * p.strides[Small]
	}
	return p.largeOff + i*p.strides[Large]
}

// classOf is the size class of buffer i.
func (p *Pool) classOf(i uint32) Class {
	if i < p.small {
		return Small
	}
	return Large
}

// end is where buffer i ends in the region.
func (p *Pool) end(i uint32) uint32 { return p.base(i) + p.strides[p.classOf(i)] }

// freeBuffer puts a buffer without references on its free list, and takes it off its account.
func (p *Pool) freeBuffer(i uint32, m *meta) {
	if p.debug.Load() != nil {
		p.poison(i)
	}
	c := p.classOf(i)
	a := &p.accounts[m.account]
	a.used[c]--
	if a.asks || a.closed {
		p.creditOrFreeAccount(i, m.account, a)
	}
	m.account = 0
	m.bufGen++
	m.next = none
	m.flags = 0
	m.state = stateFree
	p.avail[c]++
	p.freed++
	p.free[c].push(i)
}

// creditOrFreeAccount is called when a buffer of an account returns that asks for credit or is closed: the bytes are noted as credit, and a
// closed account without further buffers frees its slot.
func (p *Pool) creditOrFreeAccount(i, slot uint32, a *account) {
	if a.asks {
		p.credit(i, slot, a)
	}
	if a.closed {
		p.freeClosedAccount(slot)
	}
}
