// Package pace says when the next bytes of a sender with a rate may leave. It is a token bucket that counts exactly: over any
// stretch of time no more leaves than rate × time + burst, and a sender that always has something to send gets its rate to the
// last byte, however many years it goes on.
//
//	var b pace.Bucket
//	b.Set(now, pace.Limit{Rate: 12_500_000, Burst: 15_000})
//	if b.Ready(now, n) {
//		b.Take(now, n) // the n bytes leave now
//	} else {
//		wake := b.Due(n)
//	}
//
// The bucket is kept as one instant, that at which it will be full again (the generic cell rate algorithm of ITU-T I.371, virtual
// scheduling), with the remainder of the division by the rate: nothing is rounded away. Time comes in as an argument and there is no
// lock: a Bucket belongs to one goroutine.
package pace
