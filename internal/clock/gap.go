package clock

// Gap measures roughly, by the processor's time-stamp counter, whether much time has passed since the clock was last read. That takes some 7 ns,
// where Now takes 40 ns. It is for loops that read the clock only on every so many turns, and must read it sooner if turns take long. The
// counter's speed depends on the processor, so that a long gap (gapTicks) is 10 to 170 µs. On architectures without a counter every gap is
// long.
//
// If the counters of two processors differ, a goroutine that moves between them may see a long gap that is none, which costs one reading of the
// clock, or miss one.
type Gap struct{ since uint64 }

// Begin starts a new gap. The caller has just read the clock.
func (g *Gap) Begin() { g.since = ticks() }

// Long reports whether so much time has passed since Begin that the caller should read the clock.
func (g *Gap) Long() bool { return ticks()-g.since >= gapTicks }
