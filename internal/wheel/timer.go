package wheel

// Timer is a handle: the entry's index below, its generation above. 0 is no timer. A handle goes stale when its timer
// fires or is stopped, and stays stale when the entry is used again (until its generation comes round, after 2^31 uses).
type Timer uint64

func timerOf(i, gen uint32) Timer { return Timer(gen)<<32 | Timer(i) }

func (t Timer) index() uint32 { return uint32(t) }

func (t Timer) gen() uint32 { return uint32(t >> 32) }

// live returns the entry of a timer that still runs, or nil.
func (w *Wheel) live(t Timer) *entry {
	i := t.index()
	if uint64(i) >= uint64(len(w.table)) {
		return nil
	}
	e := &w.table[i]
	if e.gen != t.gen() || e.gen&1 == 0 {
		return nil
	}
	return e
}
