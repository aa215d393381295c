package protocol

import (
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wheel"
)

// ID is a connection's place in its Table. It is good until EventGone.
type ID uint32

// NoID stands for a segment of no connection.
const NoID = ^ID(0)

// Conn is the record of a connection. It has no pointer, so that the garbage collector need not scan a table of them.
//
//	  acknowledged   sent            may be sent   waits for window
//	─────────────┬───────────────┬──────────────┬──────────────┬──
//	            una             nxt          sndEdge          end          nxt ≤ max: it goes back to una after a loss
//
//	  received       may come
//	─────────────┬───────────────┬──
//	            rcv           rcvEdge                                     held: received and not credited
type Conn struct {
	local, remote Endpoint
	state         State
	tries         uint8 // time-outs in a row
	duplicates    uint8 // acknowledgements in a row that moved nothing
	owed          uint8 // segments with data since the last acknowledgement
	flags         connFlags

	una, nxt, max, end, sndEdge Seq
	rcv, rcvEdge                Seq
	held                        uint32
	timed                       Seq    // acknowledging it ends the measurement of the round trip
	userTimeout                 uint32 // milliseconds; 0: none
	srtt, rttvar                uint32 // microseconds; 0: not measured yet
	listener                    int32  // of an accepted connection before Take, from 1 on; else 0

	due     clock.Time // retransmission, probe, or the end of a waiting state
	ackDue  clock.Time // of a delayed acknowledgement
	since   clock.Time // nothing has moved since, while something should
	timedAt clock.Time
	timer   wheel.Timer // at the earlier one of due and ackDue, or before
}

type connFlags uint16

const (
	flagFin      connFlags = 1 << iota // FIN follows what is queued
	flagAckNow                         // an acknowledgement is to leave at once
	flagClosed                         // Close was called: no event but EventGone, and received data is refused
	flagTiming                         // timed and timedAt are good
	flagBlocked                        // the link was full: in Table.blocked
	flagOwing                          // an acknowledgement is to leave with Table.Flush, unless data carries it before: in Table.owing
	flagInLookup                       // in Table.lookup
	flagRecover                        // nxt went back after a loss; not again for the same loss
)

// live reports whether the record is in use.
func (c *Conn) live() bool { return c.local.Port != 0 }

// unsent is how many bytes wait to be sent for the first time.
func (c *Conn) unsent() int { return max(c.end.Minus(c.nxt), 0) }

// finSent reports whether FIN was sent.
func (c *Conn) finSent() bool { return c.flags&flagFin != 0 && c.end.Before(c.max) }

// rto is the retransmission time-out, doubled for each try (RFC 6298).
func (c *Conn) rto(p *Config) time.Duration {
	d := p.RTOInitial
	if c.srtt != 0 {
		d = time.Duration(c.srtt+max(4*c.rttvar, 1)) * time.Microsecond
	}
	d = max(d, p.RTOMin) << min(c.tries, 16)
	return min(d, p.RTOMax)
}

// measureRTT updates srtt and rttvar by a measured round-trip time (RFC 6298 section 2).
func (c *Conn) measureRTT(rtt time.Duration) {
	r := uint32(min(max(rtt.Microseconds(), 1), 1<<30))
	if c.srtt == 0 {
		c.srtt, c.rttvar = r, r/2
		return
	}
	diff := max(c.srtt, r) - min(c.srtt, r)
	c.rttvar += diff/4 - c.rttvar/4
	c.srtt = max(c.srtt-c.srtt/8+r/8, 1)
}
