package clock

import (
	"math"
	"time"
)

// Time is an instant on a monotonic clock, in nanoseconds since an origin that only its Source knows. Times of different
// sources must not be compared. The zero Time is earlier than every reading of Now, so a field may use it as "none".
type Time int64

// Duration is time.Duration, for packages that are not to import package time, whose Now they must not call.
type Duration = time.Duration

// The units, as in package time.
const (
	Microsecond = time.Microsecond
	Millisecond = time.Millisecond
	Second      = time.Second
	Minute      = time.Minute
	Hour        = time.Hour
)

// Never is later than every instant: the deadline of something that has none.
const Never Time = math.MaxInt64

// A Source yields the current time. Now is one; a Manual clock's Now method is another.
type Source func() Time

// base lies one nanosecond before the process's first reading, so that Now is never zero.
var base = time.Now().Add(-1)

// Now reads the monotonic clock, some tens of nanoseconds. Any goroutine.
func Now() Time { return Time(time.Since(base)) }

// Add returns t moved by d. The result saturates: it does not wrap past Never, and Never stays Never.
func (t Time) Add(d time.Duration) Time {
	sum := t + Time(d)
	switch {
	case t == Never:
		return Never
	case d > 0 && sum < t:
		return Never
	case d < 0 && sum > t:
		return math.MinInt64
	}
	return sum
}

// Sub returns the time from u to t. The result saturates at the limits of a Duration, and the time to Never is the
// longest Duration there is.
func (t Time) Sub(u Time) time.Duration {
	diff := t - u
	switch {
	case t == Never && u != Never:
		return math.MaxInt64
	case t > u && diff < 0:
		return math.MaxInt64
	case t < u && diff > 0:
		return math.MinInt64
	}
	return time.Duration(diff)
}

// Before reports whether t is earlier than u.
func (t Time) Before(u Time) bool { return t < u }
