// Package buffers divides a region of memory into reference-counted packet buffers.
//
// Rings, their drivers and protocol stacks keep all payload in such buffers, and applications receive and send [Packet] values that refer to
// them. The caller of [New] hands the region in; it is usually mapped outside the Go heap, where the kernel or a card writes into it.
// This package never maps or allocates payload memory: it records which buffer is in which state. A [Layout] describes the two size
// classes ([Small], [Large]), the headroom before each payload, and strides that do not alias in the cache.
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
// [Packet] is for the owner: one goroutine, plain counts, about 5 ns to release. [Buffer] is one buffer of a packet, which
// the owner can keep when it releases the rest. [Lent] is for every other goroutine: [Packet.Lend] turns a reference into one whose count is
// atomic, and a lent packet that was released lies on a lock-free stack until the owner calls [Pool.Reclaim]. They are
// different types so that the owner's calls need no atomic operation.
//
// All are small values with a generation. A handle whose reference was given up no longer matches: it reads as empty,
// never as the data of the buffer's next user, and a second release is counted and returns [ErrStale]. A generation cannot detect
// a release too many while another holder still has a reference; [Pool.SetDebug] records who holds what.
//
// # Budgets
//
// An [Account] counts the buffer memory that one socket holds. Besides a fixed limit there is a dynamic one
// that needs no setting: an account is over ([DriverPool.Over]) when it has more buffers than are still free. The pool enforces nothing: the
// ring stops reading. Buffers taken for sending are charged to no account. A transport with a window asks how many received bytes
// were released ([DriverPool.AskCredit], [DriverPool.TakeCredit]).
//
// # Whose calls
//
// A pool belongs to the goroutine that polls its ring. Exceptions are stated: the methods of [Lent],
// [Pool.Layout] and [Pool.Contiguous], and those of [DriverPool] whose comment says so.
package buffers
