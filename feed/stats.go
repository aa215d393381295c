package feed

// LineStats counts what one line brought. Messages, unless it says segments.
type LineStats struct {
	Segments    uint64 // packets
	Bytes       uint64 // of payload
	Heartbeats  uint64 // segments without messages
	FirstWins   uint64 // messages that this line brought first
	Duplicates  uint64 // messages that were there already
	Gaps        uint64 // times that this line skipped messages
	Lost        uint64 // messages that this line did not bring, up to the channel's watermark
	Reordered   uint64 // messages that this line brought after later ones
	Filled      uint64 // messages of the channel's holes that this line filled
	Late        uint64 // messages that came after they had been given up
	Early       uint64 // messages from before the first one of the epoch
	OldEpoch    uint64 // segments of an epoch that has ended
	Oversize    uint64 // segments that could not be parked: longer than Config.CopyBytes
	Wild        uint64 // segments beyond Config.MaxJump that nothing confirmed
	Malformed   uint64 // segments with impossible numbers: beyond the last sequence number, or a line that is not there
	Next        uint64 // the line's next message: behind the last one that it brought or announced in this epoch
	LastArrival int64  // ns
	MaxLag      int64  // the longest that a packet came after its twin, ns
	Dead        bool   // the alarm is on
}

// Stats counts for the whole channel.
type Stats struct {
	State               State
	Epoch               uint32 // how many have begun
	Session             uint64
	First, Next, High   uint64 // of the epoch: first expected, next to deliver, highest known plus one
	Delivered           uint64 // messages, in all epochs
	Recovered           uint64 // of these, from the recovery server
	Unrecovered         uint64 // messages given up
	Gaps                uint64 // holes that opened
	FilledByLine        uint64 // messages of holes that a line filled
	FilledByRecovery    uint64 // messages of holes that the recovery server filled
	Requests, Rejects   uint64
	Overflows           uint64 // holes given up because what was parked no longer fitted
	Parked, Holes       int    // now
	ParkedMax, HolesMax int
	EventsDropped       uint64 // events that found the queue full because nobody took them
}

// line is one line's counters and what it has brought so far.
type line struct {
	LineStats
	next   uint64 // the line's own next sequence number in this epoch
	missed missed
}

// missed is the ranges that a line has not brought itself, the recent ones. With them a message that comes out of order is distinguished from a
// duplicate.
type missed struct {
	r [64]Range
	n int
}

// add remembers a hole; the oldest one is forgotten when there is no room, which leaves it counted as lost.
func (m *missed) add(r Range) {
	if m.n == len(m.r) {
		copy(m.r[:], m.r[1:])
		m.n--
	}
	m.r[m.n] = r
	m.n++
}

// take removes [from,to) from the holes and reports how many messages of it were in one.
func (m *missed) take(from, to uint64) (found uint64) {
	for i := 0; i < m.n; i++ {
		h := m.r[i]
		a, b := max(h.From, from), min(h.To, to)
		if a >= b {
			continue
		}
		found += b - a
		switch {
		case a == h.From && b == h.To:
			copy(m.r[i:m.n-1], m.r[i+1:m.n])
			m.n--
			i--
		case a == h.From:
			m.r[i].From = b
		case b == h.To:
			m.r[i].To = a
		default:
			m.r[i].To = a
			m.add(Range{b, h.To}) // add may move the holes; no other one overlaps [from,to), which lies in h
		}
	}
	return found
}

// noteRange counts what the line itself has lost or reordered, when it has brought the messages [seq,end), or, with seq equal to end, a
// heartbeat that says that end is next.
func (l *line) noteRange(seq, end uint64) {
	if seq > l.next {
		l.Lost += seq - l.next
		l.Gaps++
		l.missed.add(Range{l.next, seq})
	}
	if seq < l.next && l.missed.n > 0 {
		n := l.missed.take(seq, min(end, l.next))
		l.Lost -= n
		l.Reordered += n
	}
	l.next = max(l.next, end)
}

// Line returns a line's counters, Recovery's too. For a line that is not there they are zero.
func (c *Channel[R]) Line(i uint8) LineStats {
	l := c.line(i)
	if l == nil {
		return LineStats{}
	}
	s := l.LineStats
	s.Next = l.next
	if c.state != Init && i != Recovery && c.high > l.next {
		s.Lost += c.high - l.next // what it has not brought at the end
	}
	return s
}

// Stats returns the channel's counters.
func (c *Channel[R]) Stats() Stats {
	s := c.stats
	s.State, s.Epoch, s.Session = c.state, c.epoch, c.session
	s.First, s.Next, s.High = c.first, c.next, c.high
	s.Parked, s.Holes, s.EventsDropped = c.park.used(), c.holes.n, c.events.dropped
	return s
}

// line returns a line, that of the recovery server too; nil for a number that the channel does not have.
func (c *Channel[R]) line(i uint8) *line {
	if int(i) < c.cfg.Lines {
		return &c.lines[i]
	}
	if i == Recovery {
		return &c.recovery
	}
	return nil
}
