package protocol

import "time"

// Overflow is what becomes of a SYN for a listener whose backlog is full.
type Overflow uint8

// The policies.
const (
	DropSYN   Overflow = iota // it is ignored: the peer tries again
	RefuseSYN                 // it is answered with a reset
)

// Config is what all connections of a table share. The zero value of a field takes the default.
type Config struct {
	// MSS is the most bytes of payload in a segment: 1,460.
	MSS int
	// Window is how many received bytes a connection may hold until they are credited: 65,536.
	Window int
	// Overflow is what a full backlog does.
	Overflow Overflow
	// AckEvery is after how many segments with data an acknowledgement leaves at once: 2. DelayedAck is how long it may wait otherwise: 1 ms.
	AckEvery   int
	DelayedAck time.Duration
	// RTOInitial, RTOMin and RTOMax bound the retransmission time-out: 100 ms, 10 ms, 2 s.
	RTOInitial, RTOMin, RTOMax time.Duration
	// ConnectTries is how often a SYN is repeated before the connection is given up: 6. Tries is the same for data and FIN: 10.
	ConnectTries, Tries int
	// TimeWait is how long a connection stays in TIME-WAIT: 1 s. FinWait is how long one that was closed waits for the peer's FIN: 5 s.
	TimeWait, FinWait time.Duration
	// Random gives initial sequence numbers and ports.
	Random func() uint64
}

// setDefaults fills in the fields that are zero and limits those that are too large.
func (c *Config) setDefaults() {
	number := func(v *int, or int) {
		if *v <= 0 {
			*v = or
		}
	}
	duration := func(v *time.Duration, or time.Duration) {
		if *v <= 0 {
			*v = or
		}
	}
	number(&c.MSS, 1460)
	c.MSS = min(c.MSS, 65535)
	number(&c.Window, 65536)
	c.Window = min(c.Window, maxWindow)
	number(&c.AckEvery, 2)
	c.AckEvery = min(c.AckEvery, 255)
	number(&c.ConnectTries, 6)
	number(&c.Tries, 10)
	c.ConnectTries, c.Tries = min(c.ConnectTries, 255), min(c.Tries, 254)
	duration(&c.DelayedAck, time.Millisecond)
	duration(&c.RTOInitial, 100*time.Millisecond)
	duration(&c.RTOMin, 10*time.Millisecond)
	duration(&c.RTOMax, 2*time.Second)
	duration(&c.TimeWait, time.Second)
	duration(&c.FinWait, 5*time.Second)
}
