package pace

import (
	"fmt"
	"math/bits"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// Limit is a rate and what may exceed it for a moment.
type Limit struct {
	Rate  uint64 // bytes a second; 0: no limit
	Burst uint64 // bytes that may leave at once after a pause; at least 1 unless Rate is 0
}

// The bounds of a Limit and of one piece: products with a second's nanoseconds stay within 64 bits.
const (
	MaxRate  = 1 << 40
	MaxBurst = 1 << 30
	MaxBytes = 1 << 33
)

const second = 1_000_000_000 // nanoseconds

// Bucket is a token bucket. The zero value has no limit.
type Bucket struct {
	limit Limit
	past  uint64     // the last rate, at which the bucket goes on filling while there is no limit
	full  clock.Time // when the bucket will be full again; in the past: it is full
	rest  uint64     // a fraction of a nanosecond, in units of 1/rate, to be added to full; less than the rate
}

// Set changes the limit. Bytes that are missing in the bucket stay missing, and it fills at the new rate. While there is no limit it fills at
// the old rate, and Take takes nothing out: removing a limit and setting it again does not allow a second burst. An error names the value
// that is out of bounds and changes nothing.
func (b *Bucket) Set(now clock.Time, l Limit) error {
	switch {
	case l.Rate > MaxRate:
		return fmt.Errorf("pace: rate of %d bytes a second: want at most %d", l.Rate, uint64(MaxRate))
	case l.Burst > MaxBurst || l.Burst == 0 && l.Rate != 0:
		return fmt.Errorf("pace: burst of %d bytes: want 1 to %d", l.Burst, MaxBurst)
	}
	if l.Rate == 0 {
		if b.limit.Rate != 0 {
			b.past = b.limit.Rate
		}
		b.limit = l
		return nil
	}
	missing := b.missing(now)
	b.limit, b.past, b.full, b.rest = l, 0, now, 0
	b.charge(min(missing, MaxBytes))
	return nil
}

// Limit returns the limit that was set last.
func (b *Bucket) Limit() Limit { return b.limit }

// missing returns how many bytes the bucket lacks to be full, rounded up.
func (b *Bucket) missing(now clock.Time) uint64 {
	rate := max(b.limit.Rate, b.past) // one of them is 0
	if rate == 0 || b.full < now {
		return 0
	}
	high, low := bits.Mul64(uint64(b.full-now), rate)
	low, carry := bits.Add64(low, b.rest+second-1, 0)
	if high += carry; high >= second {
		return MaxBytes
	}
	bytes, _ := bits.Div64(high, low, second)
	return bytes
}

// Ready reports whether n bytes may leave now. A piece longer than the burst may leave when the bucket is full; the bucket then takes longer to
// fill again.
func (b *Bucket) Ready(now clock.Time, n int) bool { return b.limit.Rate == 0 || b.Due(n) <= now }

// Due returns when n bytes may leave if nothing else leaves before. It is in the past if they may leave now.
func (b *Bucket) Due(n int) clock.Time {
	if b.limit.Rate == 0 {
		return 0
	}
	// The bucket must have n bytes; it lacks the others until it is full. Their time is rounded down and the fraction up, so that the n bytes do
	// not leave a fraction of a nanosecond early.
	others := b.limit.Burst - min(uint64(n), b.limit.Burst)
	at := b.full - clock.Time(others*second/b.limit.Rate)
	if b.rest != 0 {
		at++
	}
	return at
}

// Take takes n bytes, MaxBytes at most, out of the bucket, because they leave now.
func (b *Bucket) Take(now clock.Time, n int) {
	if b.limit.Rate == 0 {
		return
	}
	if b.full < now {
		b.full, b.rest = now, 0
	}
	b.charge(uint64(n))
}

// charge moves the instant at which the bucket is full by the time in which n bytes leave at the limit's rate.
func (b *Bucket) charge(n uint64) {
	cost := n*second + b.rest
	b.full += clock.Time(cost / b.limit.Rate)
	b.rest = cost % b.limit.Rate
}
