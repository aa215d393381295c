package wheel

import (
	"math/bits"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// DefaultTick is the tick of a wheel that was asked for none.
const DefaultTick = time.Millisecond

// Wheel holds timers. Make one with New; all methods are for the goroutine that owns it.
type Wheel struct {
	base  clock.Time // tick 0
	shift uint       // a tick is 1<<shift nanoseconds, so that finding a tick is a shift and not a division

	elapsed uint64 // the tick reached: no slot holds a timer of an earlier one
	latest  uint64 // the tick of the latest now given; equals elapsed unless limit ended the last Expire

	open   uint32            // the slot that Expire was emptying when limit ended it; listDue if none
	levels uint16            // bit k: level k holds a timer
	inUse  [numLevels]uint64 // bit d of [k]: slot d of level k holds a timer
	table  []entry           // the lists' heads first, then one entry per timer
	free   uint32            // first free entry, 0 = none
	count  int
}

// entry is a timer, or with an index below numLists the head of a list. 32 bytes: two to a cache line.
type entry struct {
	at         clock.Time // the deadline; may lie behind the slot it hangs in (lazy)
	data       uint64
	next, prev uint32 // neighbours in a circular list; next alone links the free entries
	gen        uint32 // odd while the timer lives, so that a handle to a free entry or to a head cannot exist
	slot       uint16 // level and digit, or listDue, or listParked
}

// New makes an empty wheel whose time starts at now. The tick is how late a timer may fire; it is rounded down to a power
// of two nanoseconds (a millisecond becomes 524,288 ns, about half), and 0 or less means DefaultTick.
func New(now clock.Time, tick time.Duration) *Wheel {
	if tick <= 0 {
		tick = DefaultTick
	}
	w := &Wheel{base: now, shift: uint(bits.Len64(uint64(tick)) - 1), open: listDue}
	w.table = make([]entry, numLists)
	for i := range w.table {
		w.table[i].next, w.table[i].prev = uint32(i), uint32(i)
	}
	return w
}

// Tick is the length of a tick: the rounded value of what New was given.
func (w *Wheel) Tick() time.Duration { return 1 << w.shift }

// Len is the number of timers started and neither stopped nor fired.
func (w *Wheel) Len() int { return w.count }

// Grow makes room for n more timers, so that starting them does not allocate.
func (w *Wheel) Grow(n int) {
	first := uint32(len(w.table))
	w.table = append(w.table, make([]entry, max(n, 0))...)
	for i := uint32(len(w.table)); i > first; i-- {
		w.table[i-1].next, w.free = w.free, i-1
	}
}

// Start adds a timer that fires at or within a tick after the given time, and returns its handle. Expire passes data on.
// A time already reached fires on the next Expire, a timer at clock.Never only once it is Reset.
func (w *Wheel) Start(at clock.Time, data uint64) Timer {
	if w.free == 0 {
		w.Grow(max(len(w.table), minGrow))
	}
	i := w.free
	e := &w.table[i]
	w.free = e.next
	e.at, e.data = at, data
	e.gen++
	w.count++
	w.insert(i, e)
	return timerOf(i, e.gen)
}

// Reset moves a timer's deadline and returns its handle, which stays the same. A deadline later than the slot the timer
// hangs in is only stored. It returns 0, false for a timer that has fired or was stopped.
func (w *Wheel) Reset(t Timer, at clock.Time) (Timer, bool) {
	e := w.live(t)
	if e == nil {
		return 0, false
	}
	e.at = at
	if !w.staysIn(e.slot, at) {
		w.unlink(e)
		w.insert(t.index(), e)
	}
	return t, true
}

// Stop removes a timer. It returns false for a timer that has fired or was stopped before.
func (w *Wheel) Stop(t Timer) bool {
	e := w.live(t)
	if e == nil {
		return false
	}
	w.remove(t.index(), e)
	return true
}

// insert puts an entry into the slot of its deadline, for Start and Reset. An entry that is due already goes to the list with which the next
// Expire begins, not to one that the present Expire may still empty: otherwise a function that restarts its timer in the past would keep
// Expire running for ever.
func (w *Wheel) insert(i uint32, e *entry) {
	if e.at == clock.Never {
		w.park(i, e)
		return
	}
	tick := w.tickOf(e.at)
	if tick <= w.latest {
		e.slot = listDue
		w.push(listNew, i, e)
		return
	}
	w.place(i, e, tick)
}

// remove takes an entry out of its list and frees it; handles to it become invalid.
func (w *Wheel) remove(i uint32, e *entry) {
	w.unlink(e)
	e.gen++
	e.next, w.free = w.free, i
	w.count--
}
