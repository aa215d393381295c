package wheel

import (
	"math/bits"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

const (
	digitBits = 6
	digitMask = 1<<digitBits - 1
	numLevels = 11 // 11 digits of 6 bits hold every 64-bit tick
	numSlots  = numLevels << digitBits

	// The lists behind the slots.
	listDue    = numSlots     // due when set; emptied first by Expire
	listNew    = numSlots + 1 // due when set, since the last Expire began; joins listDue when the next one begins
	listParked = numSlots + 2 // no deadline: in no order and never looked at
	numLists   = numSlots + 3

	minGrow = 64
)

// tickOf is the first tick at whose start the time has been reached: rounded up, so that nothing fires early.
func (w *Wheel) tickOf(at clock.Time) uint64 {
	if at <= w.base {
		return 0
	}
	d := uint64(at) - uint64(w.base) // right even where the signed difference overflows
	tick := d >> w.shift
	if tick<<w.shift != d {
		tick++
	}
	return tick
}

// reached is the last tick that has begun at now.
func (w *Wheel) reached(now clock.Time) uint64 {
	if now <= w.base {
		return 0
	}
	return (uint64(now) - uint64(w.base)) >> w.shift
}

// timeOf is the instant at which a tick begins, at most clock.Never.
func (w *Wheel) timeOf(tick uint64) clock.Time {
	if tick > (uint64(clock.Never)-uint64(w.base))>>w.shift {
		return clock.Never
	}
	return w.base + clock.Time(tick<<w.shift)
}

// startOf is the first tick of a slot in use. The digits above the slot's own are those of the tick reached, because a
// timer hangs in the level of the highest digit that differs.
func (w *Wheel) startOf(slot uint16) uint64 {
	low := uint(slot>>digitBits) * digitBits
	above := w.elapsed >> (low + digitBits) << (low + digitBits)
	return above | uint64(slot&digitMask)<<low
}

// staysIn reports whether a timer in that slot may keep hanging there with a new deadline: the slot is looked at in time.
// What is due already moves all the same, to fire in the next call: otherwise an f that starts a timer far off and resets
// it into the past would see it again in the same call, for as long as the clock jumped.
func (w *Wheel) staysIn(slot uint16, at clock.Time) bool {
	switch slot {
	case listDue:
		return true
	case listParked:
		return at == clock.Never
	}
	tick := w.tickOf(at)
	return tick > w.latest && tick >= w.startOf(slot)
}

// place puts an entry into the slot for a tick that is later than the one reached.
func (w *Wheel) place(i uint32, e *entry, tick uint64) {
	level := uint(bits.Len64(tick^w.elapsed)-1) / digitBits
	digit := uint(tick>>(level*digitBits)) & digitMask
	w.levels |= 1 << level
	w.inUse[level] |= 1 << digit
	e.slot = uint16(level<<digitBits | digit)
	w.push(uint32(e.slot), i, e)
}

// park puts an entry without a deadline into the list that is never searched.
func (w *Wheel) park(i uint32, e *entry) {
	e.slot = listParked
	w.push(listParked, i, e)
}

// empty reports whether a list has no entries.
func (w *Wheel) empty(list uint32) bool { return w.table[list].next == list }

// push appends an entry to a list.
func (w *Wheel) push(list, i uint32, e *entry) {
	head := &w.table[list]
	last := head.prev
	e.next, e.prev = list, last
	w.table[last].next = i
	head.prev = i
}

// unlink takes an entry out of its list. When only the head is left, both neighbours are the head, and its index is the
// slot that is no longer in use.
func (w *Wheel) unlink(e *entry) {
	next, prev := e.next, e.prev
	w.table[prev].next = next
	w.table[next].prev = prev
	if next == prev && next < numSlots {
		level := next >> digitBits
		w.inUse[level] &^= 1 << (next & digitMask)
		if w.inUse[level] == 0 {
			w.levels &^= 1 << level
		}
	}
}

// splice moves all of one list to the end of another. Neither is a slot, so no bitmap changes.
func (w *Wheel) splice(from, to uint32) {
	f, t := &w.table[from], &w.table[to]
	if f.next == from {
		return
	}
	first, last := f.next, f.prev
	w.table[t.prev].next, w.table[first].prev = first, t.prev
	w.table[last].next, t.prev = to, last
	f.next, f.prev = from, from
}

// nextSlot is the earliest slot in use.
func (w *Wheel) nextSlot() (slot uint16, ok bool) {
	if w.levels == 0 {
		return 0, false
	}
	level := bits.TrailingZeros16(w.levels)
	digit := bits.TrailingZeros64(w.inUse[level])
	return uint16(level<<digitBits | digit), true
}
