package ring

import (
	"sync"
	"sync/atomic"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// Ring is what an application polls. It belongs to the goroutine that polls it first; everything but what says "any goroutine" is for
// that goroutine only, and refuses others: see caller.go. Set-up before the first Poll may come from any one goroutine.
type Ring struct {
	owner    atomic.Uintptr // identity of the owning goroutine; 0 before the first Poll, closedOwner at the end
	misuses  atomic.Uint64
	turn     uint64 // counts Polls
	drv      Driver
	protocol ProtocolDriver // drv, when it speaks a protocol itself; else nil
	pool     *buffers.DriverPool
	sink     Sink
	slab     slab

	readyHead, readyTail *Socket // sockets with a pending record, oldest first

	number       uint32    // of rings
	slots        slotTable // by Handle.Slot
	locals       locals
	announced    []*Socket // their NEW_CONNECTION was delivered by the last Poll
	finished     []*Socket // CLOSED was delivered: the next Poll forgets them
	idleAccounts idleAccounts

	inbox     inbox
	clock     clock.Source
	deadlines deadlines
	starved   starvedSockets // have stopped reading for want of buffers
	armed     bool           // Arm was called and the ring has not been polled since
	listeners []*Socket

	callbackCompletion Completion // what a callback is shown; kept here so that showing it allocates nothing
	pieces             [MaxVector][]byte
	vector             [MaxVector][]byte // those of the SendVector under way
	paced              paceQueue         // sockets that wait for their time to send
	timestamping       []*shaper         // of sockets with transmit stamps
	cards              []*card           // clocks of network cards, by interface
	locked             bool
	inCallback         bool
	closing            bool
	affinity           []int       // of the thread before PerCoreAttach pinned it
	stats              *RingPage   // in memory of the set's Monitor, if there is one
	epoch              *uint64     // number of the interval that peaks are noted for
	pages              socketPages // of the Monitor
	loop               *Loop       // the set's: SetConfig.Loop
	set                *Set
	key                Key
	failures           []error    // of calls that had no caller to return them to; the next Poll returns them, alone
	reported           bool       // the last Poll returned failures: this one delivers completions first
	tracing            TraceLevel // of trace, as readTraceLevel found it last
	trace              *Trace     // of the set, else noTrace
}

// Set is the rings of one owner: it makes sockets, and a ring for each when one is due. Rings of one set share a buffer pool and
// are polled by one goroutine; rings of different sets share nothing.
type Set struct {
	config      SetConfig
	rings       []*Ring
	kind        string
	reasons     []Reason
	closed      atomic.Bool
	realClock   bool                 // SetConfig.Clock was not given
	withoutRing map[*Socket]struct{} // sockets that have no ring yet; Close ends them
	published   atomic.Pointer[[]*Ring]

	// What the records of the sockets that it made have numbers for.
	number       uint32 // of sets
	sockets      socketTable
	actives      []*activeState // [0] is that of all idle sockets
	freeActives  []uint32
	transports   []transportEntry
	settings     []*settings // [0] is zero
	settingsMu   sync.Mutex  // of settings, for others than the owner
	freeSettings []uint32
}
