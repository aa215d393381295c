// Package link is what carries frames under an offloaded ring: a [Link] is one queue of a wire.
//
// There are two so far: xdp, a queue of a network interface by AF_XDP, and memory, two ends in one process. A third between
// processes has its place beside them.
//
// # Whose memory
//
// A link is made over a buffers.DriverPool and owns no payload memory. Received frames arrive in the pool's buffers and are handed over as
// packets, in place; what is sent is read from where it lies:
//
//	           link                                     stack
//	Receive:   frame in a buffer of the pool    ──►     DriverPool.Trim(p, headers, length, account)
//	Send:      frame from a buffer of the pool  ◄──     p.Push(header) …, DriverPool.Transmit(p)
//	Complete:  sent                             ──►     Release, or DriverPool.Deliver back to the sender
//
// So one turn of a ring over a link is:
//
//	n := l.Receive(frames[:])           // buffers to the card first, then the frames
//	for i := range frames[:n] { … }     // demultiplex all, then process all
//	l.Send(out); l.Flush()              // one system call for the batch, or none
//	l.Complete(done[:])                 // buffers return to the pool
//
// # What a link guarantees
//
// Frames of one queue come in order and go in order. Nothing is lost silently: each loss has a counter with a name. A buffer that a link
// holds is filling or transmitting in the pool's ledger, and after Close it holds none. Buffer numbers and lengths that come from outside the
// process, the kernel included, are checked against the pool before they are used.
package link
