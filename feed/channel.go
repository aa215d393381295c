package feed

import "math"

// Channel is one sequence of messages sent on one or more lines. Its methods are for one goroutine.
type Channel[R any] struct {
	cfg    Config
	state  State
	step   step
	why    Cause // of the step changing
	cause  Cause // of the last giving up
	stale  bool
	ending bool // the sender said that end is the end
	due    bool // holes may be given up in this round
	now    int64

	epoch      uint32
	session    uint64
	past       [sessionKept]uint64 // sessions that ended, newest last
	pasts      int
	first      uint64 // of the epoch
	next       uint64 // to deliver
	high       uint64 // one more than the highest known; next when nothing is missing
	endSeq     uint64 // with ending
	newest     int64  // send time
	older      int64  // the newest send time of the epoch before: what is not newer belongs there
	began      int64  // when the channel was first given a time
	arrivals   uint64 // packets received
	lost       uint64 // given up since the last delivery
	oldRun     int    // packets of an ended session since the last one of this
	wild       uint64 // end of the last segment that was beyond MaxJump
	resetSeq   uint64 // with resetSent: the packet that began the epoch, which the other line will bring too
	resetSent  int64
	resetBegan bool

	cur Segment[R] // being worked on
	end uint64     // of cur
	won uint32     // messages that cur brought first
	dup bool       // nothing of cur was new

	park   park[R]
	holes  holes
	events events
	recent [recentKept]arrival
	given  [lostKept]Range
	givens int

	lines    [maxLines]line
	recovery line
	stats    Stats

	budgetAt   int64
	budgetUsed int
}

// step is what Next does with the segment that Input took.
type step uint8

const (
	idle     step = iota
	fresh         // it has messages that may be new
	spent         // it only has to be given back
	changing      // it begins a new epoch: the old one is finished first
	flushing      // there is none: everything parked has to go
)

// arrival is when and by whom the packet beginning with seq was first brought.
type arrival struct {
	seq   uint64
	at    int64
	epoch uint32
	line  uint8
}

// New makes a channel; all its memory is allocated here.
func New[R any](c Config) (*Channel[R], error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	return &Channel[R]{
		cfg:    c,
		park:   newPark[R](c.Window, c.Slots, c.CopyBytes),
		holes:  holes{h: make([]hole, c.Holes)},
		events: events{ring: make([]Event, 2*c.Holes+64)},
		now:    math.MinInt64,
	}, nil
}

// Input takes a packet. Next must then be called until it answers false, and before the next Input; Input panics
// otherwise.
func (c *Channel[R]) Input(s *Segment[R]) {
	if c.step != idle {
		panic("feed: Input before Next answered false")
	}
	c.cur = *s
	c.end = s.Seq + uint64(s.Count)
	c.won, c.dup, c.due = 0, false, !c.cfg.PollOnly
	if !c.cfg.PollOnly || c.now == math.MinInt64 {
		c.tick(s.Arrival)
	}
	l := c.line(s.Line)
	if l == nil || c.end < s.Seq {
		if l == nil {
			l = &c.recovery
		}
		l.Malformed++
		c.step = spent
		return
	}
	l.Segments++
	l.Bytes += uint64(len(s.Payload))
	l.LastArrival = s.Arrival
	c.arrivals++
	if l.Dead {
		l.Dead = false
		c.events.put(Event{Time: c.now, Kind: LineAlive, Epoch: c.epoch, Line: s.Line, Seq: c.next, Cause: CauseHeard})
	}
	c.step = c.classify(l)
}

// admit counts a segment of this epoch and looks at what it announces.
func (c *Channel[R]) admit(l *line) step {
	s := &c.cur
	if s.Seq > c.high && s.Seq-c.high > c.cfg.MaxJump && s.Seq != c.wild {
		l.Wild++
		c.wild = c.end
		return spent
	}
	if s.Line != Recovery {
		l.saw(s.Seq, c.end)
	}
	if s.End {
		c.ending, c.endSeq = true, c.end
	} else if c.ending && c.end > c.endSeq {
		c.ending = false
	}
	if s.Count == 0 {
		l.Heartbeats++
		if s.Seq > c.high && c.holes.room() {
			c.open(c.high, s.Seq)
		}
		return spent
	}
	if c.end <= c.first {
		l.Early += uint64(s.Count)
		return spent
	}
	return fresh
}

// Next gives what can be delivered now, in order; false means that the segment is dealt with and everything deliverable
// was delivered.
func (c *Channel[R]) Next(d *Delivery[R]) bool {
	for {
		if len(c.park.free) != len(c.park.slots) && c.park.at(c.next) != 0 {
			c.parked(d)
			return true
		}
		switch c.step {
		case fresh:
			if c.cur.Seq <= c.next && c.end > c.next {
				c.direct(d)
				return true
			}
			c.early()
			continue
		case spent:
			c.giveBack(d)
			return true
		case changing, flushing:
			if c.next < c.high {
				why := c.why
				if c.step == flushing {
					why = CauseFlush
				}
				c.skip(c.park.first(c.next, c.high), why)
				continue
			}
			if c.step == flushing {
				c.step = idle
				continue
			}
			c.begin()
			c.step = c.admit(c.line(c.cur.Line))
			continue
		}
		if c.holes.n == 0 {
			if c.state != Sync || c.stale || c.ending {
				c.updateState()
			}
			return false
		}
		if c.due {
			c.expire()
		}
		if h := &c.holes.h[0]; h.phase == given && h.From <= c.next {
			c.skip(h.To, h.cause)
			continue
		}
		c.updateState()
		return false
	}
}

// direct delivers the part of the segment that is next, up to what somebody else has parked.
func (c *Channel[R]) direct(d *Delivery[R]) {
	s := &c.cur
	to := c.end
	if c.next < c.high { // something may be parked in between, and a hole is being filled
		to = c.park.first(c.next, c.end)
		c.fill(c.next, to)
	}
	n := uint32(to - c.next)
	d.Payload, d.Ref = s.Payload, s.Ref
	d.Seq, d.Lost = c.next, c.lost
	d.Arrival, d.Sent, d.Lag = s.Arrival, s.Sent, 0
	d.Epoch, d.Skip, d.Count = c.epoch, uint32(c.next-s.Seq), n
	d.Line, d.Twin, d.Done, d.Recovered = s.Line, false, to == c.end, s.Line == Recovery
	c.lost = 0
	if c.won == 0 {
		c.recent[s.Seq&(recentKept-1)] = arrival{s.Seq, s.Arrival, c.epoch, s.Line}
	}
	c.won += n
	c.next = to
	c.high = max(c.high, to)
	c.stats.Delivered += uint64(n)
	if d.Recovered {
		c.stats.Recovered += uint64(n)
	}
	if d.Done {
		c.count()
	} else if c.allParked(c.next, c.end) { // nothing more to take from this packet
		d.Done = true
		c.count()
	}
}

// allParked reports whether every message of [from,to) is parked.
func (c *Channel[R]) allParked(from, to uint64) bool {
	if to-from > uint64(len(c.park.ring)) {
		return false
	}
	for q := from; q < to; q++ {
		if c.park.at(q) == 0 {
			return false
		}
	}
	return true
}

// count ends the segment: what it did not bring first was there before.
func (c *Channel[R]) count() {
	l := c.line(c.cur.Line)
	l.FirstWins += uint64(c.won)
	l.Duplicates += uint64(c.cur.Count - c.won)
	c.step = idle
}

// early parks a segment whose begin is not next, after giving up what is in the way if there is no room; or it finds
// that nothing of it is new.
func (c *Channel[R]) early() {
	s := &c.cur
	if c.end <= c.next {
		c.old()
		return
	}
	if c.cfg.CopyBytes > 0 && len(s.Payload) > c.cfg.CopyBytes {
		c.line(s.Line).Oversize++
		c.step = spent
		return
	}
	if c.end-c.next > uint64(len(c.park.ring)) || len(c.park.free) == 0 || !c.holes.room() {
		if c.end-c.next <= uint64(len(c.park.ring)) && c.allParked(s.Seq, c.end) {
			c.old() // it needs no room
			return
		}
		c.stats.Overflows++
		c.skip(c.park.first(c.next, s.Seq), CauseOverflow)
		return
	}
	n := c.park.put(s, s.Seq, c.end)
	if n == 0 {
		c.old()
		return
	}
	if c.won == 0 {
		c.recent[s.Seq&(recentKept-1)] = arrival{s.Seq, s.Arrival, c.epoch, s.Line}
	}
	if c.holes.n > 0 && s.Seq < c.high {
		c.fill(s.Seq, c.end)
	}
	if s.Seq > c.high {
		c.open(c.high, s.Seq)
	}
	c.high = max(c.high, c.end)
	c.stats.ParkedMax = max(c.stats.ParkedMax, c.park.used())
	c.won += n
	l := c.line(s.Line)
	l.FirstWins += uint64(c.won)
	l.Duplicates += uint64(s.Count - c.won)
	c.step = idle
	if c.cfg.CopyBytes > 0 {
		c.step = spent
	}
}

// old counts a segment that brought nothing new (any more).
func (c *Channel[R]) old() {
	l := c.line(c.cur.Line)
	n := uint64(c.cur.Count - c.won)
	var late uint64
	if c.won == 0 {
		for _, r := range c.given[:min(c.givens, lostKept)] {
			if a, b := max(r.From, c.cur.Seq), min(r.To, c.end); a < b {
				late += b - a
			}
		}
	}
	l.Late += late
	l.Duplicates += n - late
	l.FirstWins += uint64(c.won)
	c.step, c.dup = spent, c.won == 0
}

// parked delivers the run that is next from the park.
func (c *Channel[R]) parked(d *Delivery[R]) {
	t, n, last := c.park.take(c.next)
	s := &t.seg
	d.Payload, d.Ref = s.Payload, s.Ref
	d.Seq, d.Lost = c.next, c.lost
	d.Arrival, d.Sent, d.Lag = s.Arrival, s.Sent, 0
	d.Epoch, d.Skip, d.Count = c.epoch, uint32(c.next-s.Seq), n
	d.Line, d.Twin, d.Done, d.Recovered = s.Line, false, last && c.cfg.CopyBytes == 0, s.Line == Recovery
	c.lost = 0
	c.next += uint64(n)
	c.stats.Delivered += uint64(n)
	if d.Recovered {
		c.stats.Recovered += uint64(n)
	}
	if last { // let go of what the caller has back
		var none R
		s.Ref, s.Payload = none, nil
	}
}

// giveBack returns a segment with nothing to deliver, and finds its twin.
func (c *Channel[R]) giveBack(d *Delivery[R]) {
	s := &c.cur
	*d = Delivery[R]{Payload: s.Payload, Ref: s.Ref, Seq: s.Seq, Arrival: s.Arrival, Sent: s.Sent, Epoch: c.epoch,
		Skip: s.Count, Line: s.Line, Done: true, Recovered: s.Line == Recovery}
	c.step = idle
	if !c.dup || s.Line == Recovery {
		return
	}
	r := &c.recent[s.Seq&(recentKept-1)]
	if r.seq == s.Seq && r.epoch == c.epoch && r.line != s.Line && r.line != Recovery {
		d.Twin, d.TwinLine, d.Lag = true, r.line, s.Arrival-r.at
		l := c.line(s.Line)
		l.MaxLag = max(l.MaxLag, d.Lag)
	}
}

// fill notes that the segment filled part of a hole.
func (c *Channel[R]) fill(from, to uint64) {
	answer := c.cur.Line == Recovery
	n := c.holes.take(from, to, c.now, answer && c.cfg.Recovery.OnePacket)
	if answer {
		c.stats.FilledByRecovery += n
	} else {
		c.stats.FilledByLine += n
	}
}

// open notes a hole between what was known and what is known now.
func (c *Channel[R]) open(from, to uint64) {
	c.holes.append(hole{Range: Range{from, to}, since: c.now, arrivals: c.arrivals})
	c.stats.Gaps++
	c.stats.HolesMax = max(c.stats.HolesMax, c.holes.n)
	c.high = to
}

// skip gives up everything before to.
func (c *Channel[R]) skip(to uint64, why Cause) {
	c.events.put(Event{Time: c.now, Kind: GaveUp, Epoch: c.epoch, Seq: c.next, End: to, Cause: why})
	n := to - c.next
	c.given[c.givens%lostKept] = Range{c.next, to}
	c.givens++
	c.holes.dropBefore(to)
	c.stats.Unrecovered += n
	c.lost += n
	c.next, c.high = to, max(c.high, to)
	c.stale, c.cause = true, why
}

// Event gives the oldest event not yet taken.
func (c *Channel[R]) Event(e *Event) bool { return c.events.take(e) }

// to changes the state.
func (c *Channel[R]) to(s State, why Cause) {
	c.events.put(Event{Time: c.now, Kind: StateChanged, Epoch: c.epoch, From: c.state, To: s, Seq: c.next, End: c.high,
		Cause: why})
	c.state = s
}

// updateState finds the state that follows from what is known.
func (c *Channel[R]) updateState() {
	want, why := Sync, CauseFilled
	switch {
	case c.state == Init:
		return
	case c.holes.n > 0:
		want, why = GapWait, CauseGap
		for i := range c.holes.h[:c.holes.n] {
			if c.holes.h[i].phase == asking {
				want, why = Recovering, CauseDue
				break
			}
		}
	case c.ending && c.next >= c.endSeq:
		want, why = Ended, CauseEndOfSession
	case c.stale:
		want, why = Stale, c.cause
	}
	if want != c.state {
		c.to(want, why)
	}
}

// tick moves the channel's clock, which never goes back.
func (c *Channel[R]) tick(now int64) {
	if c.now == math.MinInt64 {
		c.began, c.budgetAt = now, now
	}
	c.now = max(c.now, now)
}
