package clock

// Gap reports whether time has passed, for the price of reading the processor's counter: some 7 ns, where Now takes 40 ns. The counter's
// speed differs from processor to processor, so the answer is coarse: a gap of gapTicks is 10 to 170 µs. It is for loops that read the clock
// every so many turns, and must not wait for those turns when they take long. Where there is no counter every gap is long.
//
// A counter that differs between processors does no harm: after a move to another one a gap may be notified that is none, or one be missed
// until the turns are over.
type Gap struct{ since uint64 }

// Begin starts the gap anew: the clock was read just now.
func (g *Gap) Begin() { g.since = ticks() }

// Long reports whether so much time has passed since Begin that the clock is to be read.
func (g *Gap) Long() bool { return ticks()-g.since >= gapTicks }
