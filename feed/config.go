package feed

import "fmt"

// Config is what a channel is made with. Times are nanoseconds, on whatever clock Segment.Arrival is read from.
type Config struct {
	// Lines is how many lines the channel is sent on, 1 to 8.
	Lines int
	// Start is the first sequence number expected; 0 takes the first one seen. With a number, what was sent before the
	// channel was joined is a gap, and asked for.
	Start uint64
	// EpochStart is the same for later epochs: most protocols begin again with 1. 0 takes the first one seen.
	EpochStart uint64
	// Window is how many messages may lie between the first one missing and the last one parked: a power of two, 64 to
	// 1<<24. 0 means 65,536 (256 KiB).
	Window int
	// Slots is how many packets may be parked. 0 means 1,024.
	Slots int
	// CopyBytes, if not 0, makes the channel copy what it parks, up to so many bytes a packet: for payloads that the
	// caller cannot keep. References come back at once. A longer packet cannot be parked and counts as Oversize.
	CopyBytes int
	// Holes is how many separate gaps may be open at once. 0 means 256.
	Holes int
	// GapTime and GapPackets are how long a hole may be filled by another line before it is asked for or given up:
	// whichever is over first; 0 does not count. Both 0: a hole is due at once.
	GapTime    int64
	GapPackets uint64
	// PollOnly ends gap windows and gives holes up in Poll only, not at the next Input, and lets the channel's clock go by
	// Tick and Poll instead of by arrival times. It is for callers that read the lines one after another, as from sockets:
	// a backlog of one line must not outrun what waits unread on the other. Tick belongs before each batch, Poll where
	// everything was read.
	PollOnly bool
	// MaxJump is how far beyond the highest known message a packet may begin and be believed at once. One that begins
	// farther away counts as Wild, unless it continues where the last wild one ended: a single corrupt sequence number
	// must not end the channel. 0 means 1,048,576.
	MaxJump uint64
	// RestartAfter is how much newer than anything seen the send time of an old sequence number must be to mean that the
	// sender has restarted. 0 means 1 s; negative turns the rule off.
	RestartAfter int64
	// LineTimeout is how long a line may be silent before the alarm: about three heartbeats. 0 turns it off.
	LineTimeout int64
	// Recovery says how to ask for what is missing. The zero value: nobody can be asked.
	Recovery RecoveryConfig
}

// RecoveryConfig bounds what a channel asks for.
type RecoveryConfig struct {
	// Attempts is how often one part of a hole is asked for; 0 turns recovery off.
	Attempts int
	// Timeout is how long an answer may take, ns; it doubles with each attempt up to TimeoutMax. 0 means 100 ms, and 8
	// times Timeout.
	Timeout, TimeoutMax int64
	// MaxMessages is the longest range of one request. 0 means 1,000.
	MaxMessages uint64
	// Outstanding is how many requests may be unanswered at once. 0 means 1.
	Outstanding int
	// Budget is the most requests in BudgetTime. 0 means 100 in 1 s.
	Budget     int
	BudgetTime int64
	// OnePacket: the server answers a request with one packet, however much was asked for (MoldUDP64). The rest is asked
	// for as soon as an answer came.
	OnePacket bool
}

const (
	second      = int64(1e9)
	maxLines    = 8
	lostKept    = 32  // given-up ranges remembered to distinguish late messages from duplicates
	recentKept  = 512 // first arrivals remembered to measure the lag of the other line; a power of two
	sessionBack = 256 // packets in a row of an ended session that make it the present one again
	sessionKept = 4   // ended sessions remembered, so that a straggler does not bring one back
)

// complete replaces values that are zero by their defaults, and checks all.
func (c *Config) complete() error {
	bad := func(name string, v any, want string) error { return fmt.Errorf("feed: %s %v: want %s", name, v, want) }
	for _, d := range []struct {
		v *int
		d int
	}{{&c.Window, 65536}, {&c.Slots, 1024}, {&c.Holes, 256}, {&c.Recovery.Outstanding, 1}} {
		if *d.v == 0 {
			*d.v = d.d
		}
	}
	for _, d := range []struct {
		v *int64
		d int64
	}{{&c.RestartAfter, second}, {&c.Recovery.Timeout, second / 10}, {&c.Recovery.BudgetTime, second}} {
		if *d.v == 0 {
			*d.v = d.d
		}
	}
	if c.MaxJump == 0 {
		c.MaxJump = 1 << 20
	}
	if c.Recovery.TimeoutMax == 0 {
		c.Recovery.TimeoutMax = 8 * c.Recovery.Timeout
	}
	if c.Recovery.MaxMessages == 0 {
		c.Recovery.MaxMessages = 1000
	}
	if c.Recovery.Budget == 0 {
		c.Recovery.Budget = 100
	}
	switch {
	case c.Lines < 1 || c.Lines > maxLines:
		return bad("Lines", c.Lines, "1 to 8")
	case c.Window < 64 || c.Window > 1<<24 || c.Window&(c.Window-1) != 0:
		return bad("Window", c.Window, "a power of two, 64 to 16,777,216")
	case c.Slots < 1 || c.Slots > 1<<20:
		return bad("Slots", c.Slots, "1 to 1,048,576")
	case c.Holes < 4 || c.Holes > 1<<16:
		return bad("Holes", c.Holes, "4 to 65,536")
	case c.CopyBytes < 0 || c.CopyBytes > 65535:
		return bad("CopyBytes", c.CopyBytes, "0 to 65,535")
	case c.GapTime < 0:
		return bad("GapTime", c.GapTime, "0 or more")
	case c.LineTimeout < 0:
		return bad("LineTimeout", c.LineTimeout, "0 or more")
	case c.Recovery.Attempts < 0:
		return bad("Recovery.Attempts", c.Recovery.Attempts, "0 or more")
	case c.Recovery.Timeout < 0:
		return bad("Recovery.Timeout", c.Recovery.Timeout, "0 or more")
	case c.Recovery.TimeoutMax < c.Recovery.Timeout:
		return bad("Recovery.TimeoutMax", c.Recovery.TimeoutMax, "Recovery.Timeout or more")
	case c.Recovery.Outstanding < 1:
		return bad("Recovery.Outstanding", c.Recovery.Outstanding, "1 or more")
	case c.Recovery.Budget < 1:
		return bad("Recovery.Budget", c.Recovery.Budget, "1 or more")
	case c.Recovery.BudgetTime < 1:
		return bad("Recovery.BudgetTime", c.Recovery.BudgetTime, "1 or more")
	}
	return nil
}
