// Package clock is time as a loop sees it: eight bytes, monotonic, read once per turn and handed down as an argument.
//
// A reactor reads Now at the top of a turn and gives that Time to everything below: rings, connections, the timing
// wheel. Code that receives a Time instead of reading a clock is cheaper (one reading per turn, not one per packet),
// sees one consistent instant during the turn, and runs in virtual time when a test or a simulated world hands it
// another Source.
//
//	now := clock.Now()                       // once per turn
//	deadline := now.Add(30 * time.Second)
//	if deadline.Before(now) { ... }
//
// Now is derived from Go's monotonic reading (CLOCK_MONOTONIC): it never jumps with the wall clock and it stands still
// while the machine is suspended. Its origin is the start of the process, so a Time means nothing to another process.
package clock
