package sys

// Goroutine returns the identity of the calling goroutine: the address of the runtime's record of it. It is the same as
// long as the goroutine lives, across garbage collections, stack growth and changes of thread, and differs from that of
// every other living goroutine. When a goroutine has ended, a new one may get its identity. It is never zero. Any
// goroutine.
//
// This is how a ring notices a Poll from a second goroutine. The usual guard, a word taken with compare-and-swap and
// given back, costs an atomic operation per Poll and sees only calls that overlap. Comparing the identity with the one
// stored by the first Poll needs no atomic at all, because the owner compares with what it wrote itself, and sees
// every foreign call. It costs about a nanosecond on amd64 and arm64; on other architectures some microseconds.
func Goroutine() uintptr { return goroutine() }
