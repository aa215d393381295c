// Package buffers divides a region of memory into reference-counted packet buffers.
//
// The region is handed in ([New]) and is usually mapped outside the Go heap, where the kernel or a card writes into it.
// This package never maps or allocates payload memory; it keeps book. Two size classes ([Small], [Large]), a headroom
// before each payload, and strides that do not alias in the cache are described by a [Layout].
//
// # A packet's life
//
// A driver takes a free buffer ([DriverPool.Take]), gives its memory to the kernel ([DriverPool.Memory]), and makes a packet of it
// when bytes have arrived ([DriverPool.Fill], [Pool.Append] for more than one buffer). The ring hands it to the application
// ([DriverPool.Deliver]), which reads it in place and gives it back:
//
//	free → filling → received → held → free
//
//	n := book.Apply(c.Packet.Bytes())
//	c.Packet.Release()
//
// To send, the application fills a buffer of its own ([Pool.Alloc], [Packet.Room], [Packet.SetLen]) or takes one it has
// received; the ring takes it over ([DriverPool.Transmit]) and completes it ([DriverPool.Complete]). Each buffer is in exactly one
// of these places, which [Pool.Ledger] counts and [Pool.Verify] proves. A transport that sends again what was lost keeps a buffer as
// unacknowledged ([DriverPool.Unacknowledge]) while no link refers to it.
//
// # Three handles
//
// [Packet] is the owner's: one goroutine, plain counts, about 5 ns to release. [Buffer] is one buffer of a packet, which
// the owner can keep when the rest goes. [Lent] is for every other goroutine: [Packet.Lend] gives a reference away,
// its count is atomic, and what comes back lies on a lock-free stack until the owner calls [Pool.Reclaim]. They are
// different types so that the owner's path pays nothing for the others.
//
// All are small values with a generation. A handle whose reference was given up no longer matches: it reads as empty,
// never as somebody else's data, and a second release is counted and returns [ErrStale]. What a generation cannot see is
// a release too many that another holder's reference covers; [Pool.SetDebug] helps to find those who hold.
//
// # Budgets
//
// An [Account] is what one socket may keep of the pool, in buffer memory. Besides a fixed limit there is a dynamic one
// that needs no setting: a holder is over ([DriverPool.Over]) when it has more than what is left for everybody. The pool only
// says so; the ring stops reading. Buffers taken for sending are charged to nobody. A transport with a window learns how much of what it
// received was released ([DriverPool.AskCredit], [DriverPool.TakeCredit]).
//
// # Whose calls
//
// A pool belongs to the goroutine that polls its ring. Exceptions are stated: the methods of [Lent],
// [Pool.Layout] and [Pool.Contiguous], and those of [DriverPool] whose comment says so.
package buffers
