package sys

// Goroutine returns the identity of the calling goroutine: the address of the runtime's record of it. It is the same as
// long as the goroutine lives, across garbage collections, stack growth and changes of thread, and differs from that of
// every other living goroutine. When a goroutine has ended, a new one may get its identity. It is never zero. Any
// goroutine.
//
// A ring uses it to refuse calls from a second goroutine: it compares the identity with the one that the first Poll stored. A flag that each
// Poll sets and clears by compare-and-swap would cost an atomic operation, and would detect only calls that overlap. It takes about a nanosecond
// on amd64 and arm64, and some microseconds on other architectures.
func Goroutine() uintptr { return goroutine() }
