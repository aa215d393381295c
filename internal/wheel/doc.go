// Package wheel is a hierarchical timing wheel: thousands of timers of which most are stopped or moved before they fire,
// as the deadlines of connections are.
//
//	w := wheel.New(clock.Now(), time.Millisecond)
//	t := w.Start(now.Add(30*time.Second), connIndex) // O(1)
//	t, ok := w.Reset(t, now.Add(30*time.Second))     // a later deadline is only stored
//	w.Stop(t)                                        // O(1)
//	n, more := w.Expire(now, 64, func(data uint64) { ... })
//	wake, ok := w.Next()                             // until when the loop may sleep
//
// # How it works
//
// Time is cut into ticks. A tick number is read as digits of six bits, and each digit has a level of 64 slots. A timer
// hangs in the level of the highest digit in which its tick differs from the tick reached so far, in the slot that digit
// names:
//
//	level 2   |..........#.....|   64 slots of 4096 ticks each
//	level 1   |....#...........|   64 slots of 64 ticks each
//	level 0   |.#..............|   64 slots of one tick each
//	            ^ every timer of a level is due before every timer of the level above
//
// When time reaches the start of a slot above level 0, its timers are spread over the levels below. Eleven levels hold
// every 64-bit tick, so nothing is too far away. One bitmap per level finds the next slot in use by counting zeros; empty
// stretches of any length, years included, are stepped over at once.
//
// # Lazy deadlines
//
// An idle connection's deadline moves with every packet. Moving it later stores the new deadline and leaves the timer
// in its slot. When time reaches that slot, the timer is not due and moves to the slot of its new deadline. A connection with traffic therefore
// pays one store per packet and one move per period.
//
// # Guarantees
//
//   - A timer never fires before its deadline, and Expire(now) fires it once now is one tick past it (unless limit
//     ended the call: then more is true).
//   - Timers fire in the order of their ticks. Within a tick the order is unspecified. Timers whose deadline had already
//     been reached when it was set come first.
//   - Start, Stop, Reset, Next and Expire do not allocate, except that Start grows the table when it is full (see Grow).
//   - Entries hold no pointers: a garbage collection skips the table, however large it is.
//
// # Who may call it
//
// A Wheel belongs to one goroutine; there is no lock and no detection of a second caller. The wheel reads no clock: time
// comes in as an argument and may be virtual.
//
// The construction follows Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP 1987), scheme 7.
package wheel
