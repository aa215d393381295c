package clock

// gapTicks is 13 µs at 5 GHz, 66 µs at 1 GHz.
const gapTicks = 1 << 16

// ticks is in ticks_amd64.s.
func ticks() uint64
