// Package memory is a link between two ends in one process, for simulations and tests.
//
// There is no goroutine and no clock in it: what one end sends and flushes, the other receives, in order, when it asks. The ends may
// belong to two goroutines. Frames are copied twice, through a queue of slots, so that each end has its own pool.
//
//	a.Send ──copy──► slots (Fault sees each frame) ──copy──► b.Receive
//
// Like a wire it has no back pressure: when the receiver's slots are full, frames are lost and counted as memory.rx_ring_full. A
// receiver without free buffers leaves the frames in the slots.
package memory
