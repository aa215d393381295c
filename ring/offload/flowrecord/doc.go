// Package flowrecord resets the peers of a process that has crashed. A ring writes its TCP connections into a record, and the next start of the
// program, or a helper, reads it. The driver of package offload makes one, and package stream writes into it.
//
// A connection of our own stack ends with its process, and the kernel knows nothing of it. A peer that sends next is reset by the kernel. An
// idle peer would wait for ever. So each ring has a file in shared memory, with 16 bytes for a connection:
//
//	| local address | remote address | both ports | SND.NXT |
//
// The process holds a lock on the file (flock). The kernel releases it when the process ends, however it ends: a file without a lock is that of
// a process that is gone.
//
//	r, err := flowrecord.Create(flowrecord.Config{})   // a ring, at its start
//	slot, err := r.Add(local, remote, sndNxt)          // a connection is established: a few stores
//	r.Advance(slot, sndNxt)                            // one store
//	r.Remove(slot)                                     // one store
//
//	results, err := flowrecord.ResetDead(ctx, flowrecord.Config{})  // the next start, before it claims anything
//	err := flowrecord.Watch(ctx, flowrecord.Config{}, report)       // a helper
//
// # An exact reset
//
// A peer takes a reset only with the number that it expects next: its RCV.NXT, which is our SND.NXT (RFC 5961 section 3.2). The record may have
// another one: it was not updated since, or the last segments were lost. So the reader asks:
//
//	reader                                                peer
//	RST, number of the record            ──────────────►  reset, if it is exact
//	old data, 1 byte, 2^30 numbers back  ──────────────►  out of its window: it answers (RFC 9293 section 3.10.7.4)
//	                                     ◄──────────────  ACK with the number, if it still has the connection
//	RST, that number                     ──────────────►
//	old data                             ──────────────►
//	                                     ◄──────────────  RST: it has none any more
//
// The last answer is the proof. What is not answered is tried again until the time is over. A number of the record is good for the question as
// long as less than 2^30 bytes were sent since: Advance need not be called more often.
//
// # Limits
//
// IPv4. The reader needs CAP_NET_RAW, and must be in the network namespace of the process. It sees answers only while no steering program takes
// them: it comes before claims are made. A program that starts again must not connect with the addresses of a recorded connection meanwhile: the
// new one would be taken for the old one. Memory of the file is allocated by Create, so that a full file system is an error there and no signal
// later.
package flowrecord
