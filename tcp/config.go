package tcp

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Config is what all connections of a table share. The zero value of a field takes the default that its comment gives.
type Config struct {
	// Random gives keys: of initial sequence numbers, cookies, ports, timestamps and hashes. It is required.
	Random func() uint64
	// MTU of paths, where neither Dial nor Path says it: 1500.
	MTU int
	// Path, unless nil, is asked when a listener answers a SYN: what the host knows of the path back, which segments with these fields take.
	Path func(from ListenerID, local, remote wire.Addr, tos, ttl uint8) Path
	// MaxConns bounds the records of connections: 1<<22. MaxHalfOpen bounds those of SYNs that were answered, for each listener: 4096.
	MaxConns, MaxHalfOpen int
	// MaxAppClosed bounds connections that the application has closed and that still send what is queued, or wait for the peer's FIN: 1<<16. At
	// the bound Close resets.
	MaxAppClosed int
	// MaxOutOfOrder bounds the bytes beyond gaps of all connections together: 64 MiB. At the bound such data is dropped as if it were lost.
	MaxOutOfOrder int
	// SynRate bounds the SYNs that each listener answers in a second; those beyond it are dropped. 0: no limit.
	SynRate int
	// Cookies says when a SYN is answered without a record (RFC 4987 section 3.6).
	Cookies CookiePolicy
	// MaxTimeWait bounds the records in TIME-WAIT: 1<<18. At the bound the oldest ends early.
	MaxTimeWait int
	// TimeWait is 2 MSL (RFC 9293 MUST-13): 60 s, as Linux has it.
	TimeWait clock.Duration
	// FinWait2 is how long a connection that the application has closed waits for the peer's FIN: 60 s, as Linux has it.
	FinWait2 clock.Duration
	// ChallengeInterval is the least time between two challenge ACKs of one connection (RFC 5961 section 7), and between two answers to
	// segments outside its window: 500 ms.
	ChallengeInterval clock.Duration
	// ResetsPerSecond bounds resets for segments of no connection: 1000.
	ResetsPerSecond int
	// PortFirst and PortLast are the ports that Connect chooses from: 32768 to 60999, as Linux has it.
	PortFirst, PortLast uint16
	// Burst is how many segments a connection sends before another has its turn in Output: 16.
	Burst int
	// InitialSequence chooses initial sequence numbers, for tests. nil: RFC 6528.
	InitialSequence func(local, remote Endpoint) Seq
	// Directory, unless nil, lists the flows and listeners of several tables of the host; Number is this table's there, from 1 to MaxTables.
	Directory *Directory
	Number    int
}

// CookiePolicy says when SYN cookies are used.
type CookiePolicy uint8

// The policies.
const (
	CookiesUnderPressure CookiePolicy = iota // when MaxHalfOpen is reached
	CookiesNever                             // a SYN over the limit is dropped
	CookiesAlways                            // for tests
)

// complete sets the defaults of fields that are zero or less, and validates the configuration. The error names what is wrong.
func (c *Config) complete() error {
	if c.Random == nil {
		return fmt.Errorf("tcp: Config.Random is nil: %w", ErrSettings)
	}
	number := func(v *int, or int) {
		if *v <= 0 {
			*v = or
		}
	}
	duration := func(v *clock.Duration, or clock.Duration) {
		if *v <= 0 {
			*v = or
		}
	}
	number(&c.MTU, 1500)
	number(&c.MaxConns, 1<<22)
	c.MaxConns = min(c.MaxConns, maxRefs)
	number(&c.MaxHalfOpen, 4096)
	number(&c.MaxAppClosed, 1<<16)
	number(&c.MaxOutOfOrder, 64<<20)
	number(&c.MaxTimeWait, 1<<18)
	number(&c.ResetsPerSecond, 1000)
	number(&c.Burst, 16)
	duration(&c.TimeWait, 60*clock.Second)
	duration(&c.FinWait2, 60*clock.Second)
	duration(&c.ChallengeInterval, 500*clock.Millisecond)
	if c.PortFirst == 0 && c.PortLast == 0 {
		c.PortFirst, c.PortLast = 32768, 60999
	}
	switch {
	case c.PortFirst == 0 || c.PortLast < c.PortFirst:
		return fmt.Errorf("tcp: ports %d to %d: %w", c.PortFirst, c.PortLast, ErrSettings)
	case c.MTU < minMTU || c.MTU > 65535:
		return fmt.Errorf("tcp: MTU %d: %w", c.MTU, ErrSettings)
	}
	return c.Directory.check(c.Number)
}

// minMTU is the least that an IPv4 path has (RFC 791).
const minMTU = 68

// Settings are those of one connection, or of the children of a listener. Start from DefaultSettings.
type Settings struct {
	NoDelay  bool // no Nagle algorithm (RFC 9293 MUST-17)
	Cork     bool // only full segments leave, for at most 200 ms
	QuickAck bool // each segment with data is acknowledged in its turn
	// QuickAckMost is the most payload of a segment that QuickAck is for; one with more is acknowledged as without QuickAck. 0: any.
	QuickAckMost uint32
	// AckEvery is after how many full segments an acknowledgement leaves at once: 2 (RFC 9293 SHLD-19). AckBytes, unless 0, is the same in
	// bytes. DelayedAck is how long an acknowledgement may wait: 40 ms, at most 500 ms (RFC 9293 MUST-40).
	AckEvery   uint8
	AckBytes   uint32
	DelayedAck clock.Duration

	ReceiveBuffer int // bytes that may be received and not credited: 256 KiB
	SendBuffer    int // bytes that may be queued and not acknowledged: 256 KiB

	Congestion Congestion // CUBIC
	// RTOInitial, RTOMin and RTOMax bound the retransmission time-out (RFC 6298): 1 s, 200 ms, 120 s.
	RTOInitial, RTOMin, RTOMax clock.Duration
	// PeerAckDelay is the longest time that the peer may hold an acknowledgement of less than two full segments. A time-out for so little is not
	// shorter, so that a small RTOMin does not send again what has arrived: 40 ms, as Linux holds them.
	PeerAckDelay clock.Duration
	SynRetries   uint8 // SYNs sent again: 6, which is 127 s
	Retries      uint8 // time-outs in a row until the connection fails: 15 (RFC 9293 MUST-20, MUST-21)
	// UserTimeout is how long data may stay unacknowledged (RFC 9293 section 3.9.1.1): 0, no such limit.
	UserTimeout clock.Duration

	KeepAlive bool // RFC 9293 MUST-24, MUST-25: off
	// KeepIdle, KeepInterval and KeepCount: 2 h, 75 s, 9.
	KeepIdle, KeepInterval clock.Duration
	KeepCount              uint8

	// Linger is how long a connection that was closed may take for what is queued: 0, as long as the peer acknowledges.
	Linger clock.Duration
	// ResetUnread makes Close send a reset where received data was not credited (RFC 2525 section 2.17, RFC 9293 SHLD-3): on.
	ResetUnread bool

	MaxSegment  uint16 // the most payload of a segment, in both directions: 0, what the MTU gives
	WindowScale int8   // the shift that is offered: 7; negative: none
	SACK        bool   // RFC 2018: on
	Timestamps  bool   // RFC 7323: on
	ECN         bool   // RFC 3168: off as Linux has it when connecting; a peer that asks is answered in any case
	PathMTU     bool   // RFC 1191, RFC 8899 section 4.3: packets must not be fragmented, and shrink where big ones are lost: on
	TTL, TOS    uint8  // 64, 0
}

// Congestion names a congestion control.
type Congestion uint8

// The congestion controls: VMA's three.
const (
	CUBIC               Congestion = iota // RFC 9438
	NewReno                               // RFC 5681, RFC 6582
	NoCongestionControl                   // the peer's window alone bounds what is sent
	numCongestion
)

// DefaultSettings are those that Linux has, in its option order and with its window scale.
func DefaultSettings() Settings {
	return Settings{
		AckEvery: 2, DelayedAck: 40 * clock.Millisecond,
		ReceiveBuffer: 256 << 10, SendBuffer: 256 << 10,
		RTOInitial: clock.Second, RTOMin: 200 * clock.Millisecond, RTOMax: 120 * clock.Second, PeerAckDelay: 40 * clock.Millisecond, SynRetries: 6, Retries: 15,
		KeepIdle: 2 * clock.Hour, KeepInterval: 75 * clock.Second, KeepCount: 9,
		ResetUnread: true, WindowScale: 7, SACK: true, Timestamps: true, PathMTU: true, TTL: 64,
	}
}

// check validates settings. The error names the first field that is out of its range.
func (s *Settings) check() error {
	bad := func(what string, v any) error { return fmt.Errorf("tcp: %s %v: %w", what, v, ErrSettings) }
	switch {
	case s.AckEvery == 0:
		return bad("AckEvery", s.AckEvery)
	case s.DelayedAck < 0 || s.DelayedAck >= 500*clock.Millisecond: // RFC 9293 MUST-40
		return bad("DelayedAck", s.DelayedAck)
	case s.ReceiveBuffer < 1 || s.ReceiveBuffer > maxWindow:
		return bad("ReceiveBuffer", s.ReceiveBuffer)
	case s.SendBuffer < 1 || s.SendBuffer > maxWindow:
		return bad("SendBuffer", s.SendBuffer)
	case s.Congestion >= numCongestion:
		return bad("Congestion", s.Congestion)
	case s.RTOMin < clock.Millisecond || s.RTOMax < s.RTOMin || s.RTOInitial < s.RTOMin || s.RTOInitial > s.RTOMax:
		return bad("RTO", [...]clock.Duration{s.RTOInitial, s.RTOMin, s.RTOMax})
	case s.Retries == 0 || s.PeerAckDelay < 0 || s.UserTimeout < 0 || s.Linger < 0:
		return bad("Retries, UserTimeout, Linger", [...]any{s.Retries, s.UserTimeout, s.Linger})
	case s.KeepIdle <= 0 || s.KeepInterval <= 0 || s.KeepCount == 0:
		return bad("KeepIdle, KeepInterval, KeepCount", [...]any{s.KeepIdle, s.KeepInterval, s.KeepCount})
	case s.MaxSegment != 0 && s.MaxSegment < minMSS:
		return bad("MaxSegment", s.MaxSegment)
	case s.WindowScale > maxScale: // RFC 7323 section 2.3
		return bad("WindowScale", s.WindowScale)
	case s.TTL == 0:
		return bad("TTL", s.TTL)
	}
	return nil
}

const (
	maxWindow  = 1 << 30 // RFC 7323 section 2.2
	maxScale   = 14      // RFC 7323 section 2.3
	defaultMSS = 536     // RFC 9293 MUST-15
	minMSS     = 48      // a peer's smaller one counts as this: with less a segment is all header
	leastOffer = 28      // and the least of ours: by minMTU
)
