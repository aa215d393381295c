package wheel

import "github.com/socketxtreme/socketxtreme/internal/clock"

// How many timers a call of Expire may move to other slots, for each timer that it may fire, and at least. With it limit bounds the time of a
// call, however many timers a jump of the clock has to spread.
const (
	movesPerLimit = 4
	movesAtLeast  = 64
)

// Expire fires the timers that are due at now, at most limit of them: each is removed and f is called with its data. It
// returns how many fired, and whether limit ended the call with work left: then the caller comes back, at once or after
// other work of its turn. A call also re-hangs at most 4*limit+64 timers whose deadlines lie further on.
//
// f may start, stop and reset timers, also in the past; a timer that f starts does not fire in the same call, however it
// is reset. f must not call Expire. If f panics, the wheel is whole: that timer has fired and the rest are still to come.
// A now earlier than one given before counts as that one.
func (w *Wheel) Expire(now clock.Time, limit int, f func(data uint64)) (n int, more bool) {
	w.latest = max(w.latest, w.reached(now))
	target := w.latest
	if target == w.elapsed && w.empty(listNew) && w.empty(listDue) && w.empty(w.open) {
		return 0, false
	}
	x := expiry{fires: limit, moves: movesPerLimit*min(max(limit, 0), 1<<28) + movesAtLeast}
	w.splice(listNew, listDue)
	if !w.drain(listDue, target, &x, f) {
		return limit - x.fires, true
	}
	for {
		if !w.drain(w.open, w.elapsed, &x, f) {
			return limit - x.fires, true
		}
		w.open = listDue // another timer may be hung into that slot for a later round of it
		slot, ok := w.nextSlot()
		if !ok || w.startOf(slot) > target {
			break
		}
		w.elapsed, w.open = w.startOf(slot), uint32(slot)
	}
	w.elapsed = max(w.elapsed, target)
	return limit - x.fires, false
}

// Next returns when Expire has to be called next, and false when no timer has a deadline. The time is never later than
// the earliest deadline plus one tick. It may be earlier: the slots of far timers have to be spread as they are reached,
// and a deadline that was moved later is noticed only then. When something is due already, it is not later than the
// latest now given to Expire (or to New).
func (w *Wheel) Next() (clock.Time, bool) {
	if !w.empty(listDue) || !w.empty(listNew) || !w.empty(w.open) {
		return w.timeOf(w.elapsed), true
	}
	slot, ok := w.nextSlot()
	if !ok {
		return 0, false
	}
	return w.timeOf(w.startOf(slot)), true
}

// expiry counts how many timers one call of Expire may still fire and move.
type expiry struct{ fires, moves int }

// drain empties a list from the front: it fires timers that are due at the tick, and moves the others to the slots of their deadlines. It
// returns false if the budget x ended it: the remaining timers are still in the list, and the next call of Expire goes on there. No pointer
// into the table is used after f, which may change any list and grow the table.
func (w *Wheel) drain(list uint32, tick uint64, x *expiry, f func(data uint64)) bool {
	for !w.empty(list) {
		i := w.table[list].next
		e := &w.table[i]
		due := w.tickOf(e.at)
		switch {
		case due <= tick && e.at != clock.Never:
			if x.fires <= 0 {
				return false
			}
			x.fires--
			data := e.data
			w.remove(i, e)
			f(data)
		case x.moves == 0:
			return false
		default:
			x.moves--
			w.unlink(e)
			if e.at == clock.Never {
				w.park(i, e)
			} else {
				w.place(i, e, due)
			}
		}
	}
	return true
}
