// Package handoff takes datagrams from the ring that received them to the ring whose sockets they are for, without a lock. It is used by
// the driver of package offload, whose rings share interfaces.
//
// A [Hub] has one [Queue] for each ordered pair of rings, of one producer and one consumer; each ring has a [Port], its ends of them.
//
//	card, queue 0 ──► ring A ──► sockets of A
//	                    │ Queue
//	card, queue 1 ──► ring B ──► sockets of B         and the other way round
//
// The producer's packets stay its own: the consumer copies the payload into its own pool at its next Poll, and how far it has come is what
// gives the producer its buffers back. A consumer is woken only when it sleeps. What a consumer too slow does not take is lost and counted,
// as are datagrams under way to a ring that is closed.
package handoff
