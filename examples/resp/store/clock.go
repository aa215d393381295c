package store

import "time"

// Clock is the time of a batch of commands: it stands still from the first command that asks until Forget, so that a batch costs at
// most one look at the clock, and two commands of it agree on what has expired.
type Clock struct {
	read func() int64
	at   int64
}

// NewClock reads the time from read, in milliseconds since 1970; nil is the system's.
func NewClock(read func() int64) *Clock {
	if read == nil {
		read = func() int64 { return time.Now().UnixMilli() }
	}
	return &Clock{read: read}
}

// Now is the time of the batch.
func (c *Clock) Now() int64 {
	if c.at == 0 {
		c.at = c.read()
	}
	return c.at
}

// Forget ends the batch.
func (c *Clock) Forget() { c.at = 0 }
