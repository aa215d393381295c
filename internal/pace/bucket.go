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
	past  uint64     // the rate at which debts are paid while there is no limit: the last one
	full  clock.Time // when the bucket is full again; in the past: it is full
	rest  uint64     // of a nanosecond in 1/rate, to be added to full; less than the rate
}

// Set changes the limit. What was taken before stays taken: bytes that the old rate had not yet paid for are paid at the new one. While
// there is no limit the old rate goes on paying them, and what is taken then costs nothing: ending a limit and setting it again gives
// nobody a second burst. An error names what is out of bounds and leaves the bucket as it was.
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
	debt := b.debt(now)
	b.limit, b.past, b.full, b.rest = l, 0, now, 0
	b.charge(min(debt, MaxBytes))
	return nil
}

// Limit is what was set.
func (b *Bucket) Limit() Limit { return b.limit }

// debt is what was taken and is not paid for yet, in bytes, rounded up.
func (b *Bucket) debt(now clock.Time) uint64 {
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

// Ready reports whether n bytes may leave now. A piece that is longer than the burst may leave when the bucket is full; what it has too
// much is paid for afterwards.
func (b *Bucket) Ready(now clock.Time, n int) bool { return b.limit.Rate == 0 || b.Due(n) <= now }

// Due is when n bytes may leave, given that nothing else leaves before; in the past when they may now.
func (b *Bucket) Due(n int) clock.Time {
	if b.limit.Rate == 0 {
		return 0
	}
	// Full up to n bytes: the time that fills the others may still lie ahead. It is rounded down and the remainder up, so that n is
	// not let go a fraction of a nanosecond early.
	others := b.limit.Burst - min(uint64(n), b.limit.Burst)
	at := b.full - clock.Time(others*second/b.limit.Rate)
	if b.rest != 0 {
		at++
	}
	return at
}

// Take notes that n bytes leave now; not more than MaxBytes.
func (b *Bucket) Take(now clock.Time, n int) {
	if b.limit.Rate == 0 {
		return
	}
	if b.full < now {
		b.full, b.rest = now, 0
	}
	b.charge(uint64(n))
}

// charge moves the instant by what n bytes cost.
func (b *Bucket) charge(n uint64) {
	cost := n*second + b.rest
	b.full += clock.Time(cost / b.limit.Rate)
	b.rest = cost % b.limit.Rate
}
