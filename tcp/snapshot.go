package tcp

import (
	"errors"
	"fmt"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// Errors of moving.
var (
	ErrMoving = errors.New("tcp: the connection is moving")
	ErrState  = errors.New("tcp: a connection in this state cannot move")
)

// Snapshot is a connection while it moves, between two tables or between a table and a kernel: all but its payload, which Queues has. Export
// makes it, and Import takes it; package ring/transport/repair does the same with sockets of the kernel.
//
//	 acknowledged   Queues.Sent       Queues.Unsent
//	─────────────┬──────────────────┬───────────────────┬──
//	        SendUnacked         SendNext                      Fin: FIN follows
//
//	 Held, Queues.Received      the peer may send
//	────────────────────────┬────────────────────┬──
//	                   ReceiveNext          + ReceiveWindow
type Snapshot struct {
	Local, Remote Endpoint

	SendUnacked, SendNext     Seq // SND.UNA; SND.NXT, which does not count FIN
	Fin                       bool
	SendWindow, MaxSendWindow uint32 // bytes beyond SendUnacked; the most that it ever was
	SendWL1                   Seq    // the segment that SendWindow came with

	ReceiveNext   Seq // RCV.NXT
	ReceiveWindow uint32
	Held          int // bytes before ReceiveNext that the application has and did not release; without Queues.Received
	Reneged       int // bytes beyond a gap, which are not carried: the peer sends them again. -1: nobody knows

	PeerMSS                 uint16
	MTU                     int // of the path
	Scaled                  bool
	SendScale, ReceiveScale uint8
	SACK, ECN               bool

	Timestamps    bool
	Timestamp     uint32 // the next one to be sent: not before one that was sent
	TSRecent      uint32 // the peer's latest one
	TSRecentKnown bool

	// What was measured, for a faster start. 0: not known.
	RTT, RTTVar, MinRTT                  clock.Duration
	CongestionWindow, SlowStartThreshold int

	Settings Settings
}

// Queues are the payload of a connection that moves.
type Queues struct {
	Received []Payload // in order, and not given to the application
	Sent     []Payload // between SendUnacked and SendNext
	Unsent   []Payload // behind SendNext
}

// length is the sum of the bytes of a list of payloads.
func length(list []Payload) (n int) {
	for _, p := range list {
		n += int(p.Length)
	}
	return n
}

// check validates a snapshot with its queues. The error names the first field that is out of range or contradicts another.
func (s *Snapshot) check(q *Queues) error {
	bad := func(what string, v any) error { return fmt.Errorf("tcp: snapshot: %s %v: %w", what, v, ErrSettings) }
	flight, received := s.SendNext.Minus(s.SendUnacked), length(q.Received)
	switch {
	case !isHost(s.Remote.Addr) || !isHost(s.Local.Addr) || s.Remote.Port == 0 || s.Local.Port == 0:
		return ErrAddress
	case flight != length(q.Sent):
		return bad("bytes between SendUnacked and SendNext, and in Sent:", [...]int{flight, length(q.Sent)})
	case flight+length(q.Unsent) > maxWindow:
		return bad("bytes to send", flight+length(q.Unsent))
	case s.SendScale > maxScale || s.ReceiveScale > maxScale:
		return bad("scales", [...]uint8{s.SendScale, s.ReceiveScale})
	case !s.Scaled && s.SendScale|s.ReceiveScale != 0:
		return bad("scales, and Scaled is false:", [...]uint8{s.SendScale, s.ReceiveScale})
	case s.SendWindow > maxWindow || s.MaxSendWindow > maxWindow || s.ReceiveWindow > maxWindow:
		return bad("windows", [...]uint32{s.SendWindow, s.MaxSendWindow, s.ReceiveWindow})
	case s.Held < 0 || s.Held+received > maxWindow:
		return bad("bytes held", s.Held+received)
	case s.PeerMSS < minMSS:
		return bad("PeerMSS", s.PeerMSS)
	case s.MTU < minMTU || s.MTU > 65535:
		return bad("MTU", s.MTU)
	}
	for _, list := range [...][]Payload{q.Received, q.Sent, q.Unsent} {
		for _, p := range list {
			if p.Length == 0 {
				return bad("a piece of length", 0)
			}
		}
	}
	return s.Settings.check()
}
