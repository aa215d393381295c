package clock

// gapTicks is 4 µs at 1 GHz, 170 µs at 24 MHz.
const gapTicks = 1 << 12

// ticks is in ticks_arm64.s.
func ticks() uint64
