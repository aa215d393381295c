package tcp

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// ID is a connection's place in its Table. It is good until EventGone.
type ID uint32

// NoID stands for no connection.
const NoID = ^ID(0)

// ListenerID is a listener's place in its Table, from 1 on. It is good until CloseListener.
type ListenerID uint32

// maxRefs is how many records of a kind the flow table can name.
const maxRefs = 1 << 30

// Table is the connections of one host that one ring serves. It belongs to one goroutine. A call with an ID that is not good returns
// ErrNoConn, or does nothing.
type Table struct {
	config Config
	events [2][]Event // filled, and what Events returned last
	resets []Segment  // to be sent: answers to segments of no connection
	stats  Stats
}

// Stats are totals.
type Stats struct {
	In, Out uint64 // segments
	Resets  uint64 // resets that were sent to segments of no connection
}

// New makes an empty table.
func New(c Config, now clock.Time) (*Table, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	return &Table{config: c}, nil
}

// Input takes a received segment whose checksum is right. kept: the table keeps the buffer of the payload, and an event gives it back. Otherwise
// it stays the caller's. The drop is for the counters: a segment may be dropped and answered. The segment itself is the caller's again.
func (t *Table) Input(now clock.Time, s *Segment) (kept bool, d wire.Drop) {
	t.stats.In++
	return false, t.unknown(s)
}

// Output writes the next segment to be sent to s. It returns false when nothing is to be sent now.
func (t *Table) Output(now clock.Time, s *Segment) bool {
	if n := len(t.resets); n > 0 {
		*s = t.resets[0]
		t.resets = append(t.resets[:0], t.resets[1:]...)
		t.stats.Out++
		return true
	}
	return false
}

// Expire does what is due; more reports that something still is, because one call does a bounded amount of work.
func (t *Table) Expire(now clock.Time) (more bool) { return false }

// Deadline is when Expire must be called again at the latest; clock.Never: not by itself.
func (t *Table) Deadline() clock.Time { return clock.Never }

// Events are what happened since the last call, in order. The slice is good until the next call of Events.
func (t *Table) Events() []Event {
	done := t.events[0]
	t.events[0], t.events[1] = t.events[1][:0], done
	return done
}

// Stats are the totals so far.
func (t *Table) Stats() Stats { return t.stats }

// unknown is a segment of no connection and no listener: RFC 9293 section 3.10.7.1.
func (t *Table) unknown(s *Segment) wire.Drop {
	if s.Group {
		return wire.TCPGroup
	}
	if s.Flags&wire.TCPRst == 0 {
		t.stats.Resets++
		t.resets = append(t.resets, resetFor(s))
	}
	return wire.TCPNoConnection
}

// resetFor is the reset that answers a segment, so that its sender accepts it (RFC 9293 section 3.5.2).
func resetFor(s *Segment) Segment {
	r := Segment{Local: s.Local, Remote: s.Remote, Flags: wire.TCPRst, Conn: NoID, TTL: 64}
	if s.Flags&wire.TCPAck != 0 {
		r.Seq = s.Ack
	} else {
		r.Flags |= wire.TCPAck
		r.Ack = s.Seq.Add(s.span())
	}
	return r
}
