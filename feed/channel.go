package feed

import "math"

// Channel puts one sequence of messages, sent on one or more lines, in order. R is the caller's reference to the memory of a packet. Its
// methods are for one goroutine.
//
//	first ────────── next ═══════════════════ high
//	      delivered        parked, with holes       not known yet
type Channel[R any] struct {
	cfg    Config
	state  State
	step   step
	why    Cause // why step is changeEpoch
	cause  Cause // why messages were given up last
	stale  bool  // messages were given up, and Resynced was not called since
	ending bool  // the sender said that endSeq is the end of the session
	due    bool  // Next moves holes on by time: after each Input, or with Config.PollOnly after Poll
	now    int64

	epoch      uint32
	session    uint64
	past       [sessionKept]uint64 // sessions that ended, newest last
	pasts      int
	first      uint64 // first message of the epoch
	next       uint64 // next message to deliver
	high       uint64 // one more than the highest known message; next when nothing is missing
	endSeq     uint64 // with ending: one more than the last message of the session
	newest     int64  // latest send time of a packet of this epoch
	older      int64  // latest send time of the epoch before: a packet that is not newer belongs to that epoch
	began      int64  // when the channel was first given a time
	arrivals   uint64 // packets received
	newestAt   int64  // when the newest packet arrived that ends at high
	lost       uint64 // messages given up since the last delivery
	oldRun     int    // packets of an ended session since the last packet of the present one
	wild       uint64 // end of the last segment that was beyond MaxJump
	resetSeq   uint64 // with resetSent: the packet that began the epoch, which the other line will bring too
	resetSent  int64
	resetBegan bool // the epoch began with a packet that has Reset

	cur Segment[R] // the segment that Input was given last
	end uint64     // one more than its last message
	won uint32     // messages that cur brought first
	dup bool       // nothing of cur was new

	park       park[R] // packets that came too early
	holes      holes   // messages that are missing between next and high
	events     events
	recent     [recentKept]arrival
	lostRanges [lostKept]Range // ranges that were given up last, as a ring
	lostCount  int             // how many were given up in this epoch

	lines    [maxLines]line
	recovery line
	stats    Stats

	budgetAt   int64
	budgetUsed int
}

// step is what Next does with the segment that Input was given.
type step uint8

const (
	idle          step = iota // nothing: the segment is dealt with
	deliverNew                // deliver or park the messages in it that are new
	returnOnly                // return it to the caller: it has nothing to deliver
	changeEpoch               // finish the present epoch, then begin a new one with it
	deliverParked             // there is no segment (Flush): deliver everything that is parked
)

// arrival is when, and by which line, the packet that begins with seq arrived first.
type arrival struct {
	seq   uint64
	at    int64
	epoch uint32
	line  uint8
}

// New makes a channel. It allocates all memory that the channel will use. An error names the field of the configuration that is wrong.
func New[R any](c Config) (*Channel[R], error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	return &Channel[R]{
		cfg:    c,
		park:   newPark[R](c.Window, c.Slots, c.CopyBytes),
		holes:  holes{h: make([]hole, c.Holes)},
		events: events{ring: make([]Event, 2*c.Holes+64)}, // two for each hole, which opens and closes, and room for the others
		now:    math.MinInt64,
	}, nil
}

// Input gives the channel a packet. The caller must then call Next until it returns false; Input panics if it has not. Every packet's Ref
// comes back in exactly one Delivery with Done set.
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
		c.step = returnOnly
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

// admit handles what a segment of the present epoch says besides its messages: that later messages exist, and that the session ends. It returns
// what is to be done with the segment.
func (c *Channel[R]) admit(l *line) step {
	s := &c.cur
	if s.Seq > c.high && s.Seq-c.high > c.cfg.MaxJump && s.Seq != c.wild { // believe such a jump only if a second packet continues it
		l.Wild++
		c.wild = c.end
		return returnOnly
	}
	if s.Line != Recovery {
		l.noteRange(s.Seq, c.end)
	} else {
		l.next = c.end
	}
	if s.End {
		c.ending, c.endSeq = true, c.end
	} else if c.ending && c.end > c.endSeq {
		c.ending = false
	}
	if s.Count == 0 {
		l.Heartbeats++
		if s.Seq > c.high && c.holes.room() {
			c.openHole(c.high, s.Seq)
		}
		if s.Seq == c.high {
			c.newestAt = s.Arrival
		}
		return returnOnly
	}
	if c.end <= c.first {
		l.Early += uint64(s.Count)
		return returnOnly
	}
	return deliverNew
}

// Next fills d with the next messages in sequence, and is called after Input, Poll, Rejected and Flush until it returns false: then the
// segment is dealt with and everything that can be delivered now was delivered.
func (c *Channel[R]) Next(d *Delivery[R]) bool {
	for {
		if len(c.park.free) != len(c.park.slots) && c.park.at(c.next) != 0 {
			c.deliverFromPark(d)
			return true
		}
		switch c.step {
		case deliverNew:
			if c.cur.Seq <= c.next && c.end > c.next {
				c.deliverSegment(d)
				return true
			}
			c.parkSegment()
			continue
		case returnOnly:
			c.returnSegment(d)
			return true
		case changeEpoch, deliverParked:
			if c.next < c.high {
				why := c.why
				if c.step == deliverParked {
					why = CauseFlush
				}
				c.giveUpTo(c.park.first(c.next, c.high), why)
				continue
			}
			if c.step == deliverParked {
				c.step = idle
				continue
			}
			c.beginEpoch()
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
			c.expireHoles()
		}
		if h := &c.holes.h[0]; h.phase == givenUp { // it begins with next: messages below high are parked or in a hole, next is not parked
			c.giveUpTo(h.To, h.cause)
			continue
		}
		c.updateState()
		return false
	}
}

// deliverSegment delivers the part of the current segment that is next in sequence, up to the first message that is parked already: that one is
// delivered from the park.
func (c *Channel[R]) deliverSegment(d *Delivery[R]) {
	s := &c.cur
	to := c.end
	if c.next < c.high { // the segment fills a hole, and later messages may be parked
		to = c.park.first(c.next, c.end)
		c.fillHoles(c.next, to)
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
	if to >= c.high {
		c.high, c.newestAt = to, s.Arrival
	}
	c.stats.Delivered += uint64(n)
	if d.Recovered {
		c.stats.Recovered += uint64(n)
	}
	if d.Done {
		c.endSegment()
	} else if c.allParked(c.next, c.end) { // the rest of this packet is delivered from other packets
		d.Done = true
		c.endSegment()
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

// endSegment counts the messages of a segment that was delivered or parked, and ends it. Messages that it did not bring first are duplicates.
func (c *Channel[R]) endSegment() {
	l := c.line(c.cur.Line)
	l.FirstWins += uint64(c.won)
	l.Duplicates += uint64(c.cur.Count - c.won)
	c.step = idle
}

// parkSegment parks the current segment, whose first message is not next in sequence. If there is no room it gives up the oldest hole, and is
// called again. A segment without a new message is only counted and returned.
func (c *Channel[R]) parkSegment() {
	s := &c.cur
	if c.end <= c.next {
		c.countOld()
		return
	}
	if c.cfg.CopyBytes > 0 && len(s.Payload) > c.cfg.CopyBytes {
		c.line(s.Line).Oversize++
		c.step = returnOnly
		return
	}
	if c.end-c.next > uint64(len(c.park.ring)) || len(c.park.free) == 0 || !c.holes.room() {
		if c.end-c.next <= uint64(len(c.park.ring)) && c.allParked(s.Seq, c.end) {
			c.countOld() // it needs no room
			return
		}
		c.stats.Overflows++
		c.giveUpTo(c.park.first(c.next, s.Seq), CauseOverflow)
		return
	}
	n := c.park.add(s, s.Seq, c.end)
	if n == 0 {
		c.countOld()
		return
	}
	if c.won == 0 {
		c.recent[s.Seq&(recentKept-1)] = arrival{s.Seq, s.Arrival, c.epoch, s.Line}
	}
	if c.holes.n > 0 && s.Seq < c.high {
		c.fillHoles(s.Seq, c.end)
	}
	if s.Seq > c.high {
		c.openHole(c.high, s.Seq)
	}
	if c.end >= c.high {
		c.high, c.newestAt = c.end, s.Arrival
	}
	c.stats.ParkedMax = max(c.stats.ParkedMax, c.park.used())
	c.won += n
	l := c.line(s.Line)
	l.FirstWins += uint64(c.won)
	l.Duplicates += uint64(s.Count - c.won)
	c.step = idle
	if c.cfg.CopyBytes > 0 { // the park has a copy
		c.step = returnOnly
	}
}

// countOld counts a segment none of whose remaining messages is new: they are duplicates, or late if they were given up before.
func (c *Channel[R]) countOld() {
	l := c.line(c.cur.Line)
	n := uint64(c.cur.Count - c.won)
	var late uint64
	if c.won == 0 {
		for _, r := range c.lostRanges[:min(c.lostCount, lostKept)] {
			if a, b := max(r.From, c.cur.Seq), min(r.To, c.end); a < b {
				late += b - a
			}
		}
	}
	l.Late += late
	l.Duplicates += n - late
	l.FirstWins += uint64(c.won)
	c.step, c.dup = returnOnly, c.won == 0
}

// deliverFromPark delivers the messages that are next in sequence from one parked packet.
func (c *Channel[R]) deliverFromPark(d *Delivery[R]) {
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
	if last { // the caller has the packet again: keep no reference to its memory
		var none R
		s.Ref, s.Payload = none, nil
	}
}

// returnSegment returns a segment that has nothing to deliver to the caller. If it is a duplicate, it looks for the packet of the other line
// that brought the same messages first (the twin), and measures by how much this one came later.
func (c *Channel[R]) returnSegment(d *Delivery[R]) {
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

// fillHoles takes the messages [from,to), which the current segment brought, out of the holes, and counts those that were missing.
func (c *Channel[R]) fillHoles(from, to uint64) {
	answer := c.cur.Line == Recovery
	c.reportFilled(Range{from, to})
	n := c.holes.fill(from, to, c.now, answer && c.cfg.Recovery.OnePacket)
	c.line(c.cur.Line).Filled += n
	if answer {
		c.stats.FilledByRecovery += n
	} else {
		c.stats.FilledByLine += n
	}
}

// openHole notes that the messages [from,to) are missing: from is the highest message known so far plus one, to the message that has arrived.
func (c *Channel[R]) openHole(from, to uint64) {
	c.holes.append(hole{Range: Range{from, to}, since: c.now, after: c.newestAt, behind: c.cur.Arrival, pace: c.pace(), arrivals: c.arrivals})
	c.stats.Gaps++
	c.stats.HolesMax = max(c.stats.HolesMax, c.holes.n)
	c.high = to
}

// pace is how long a message took, in ns, between one of the second before the newest packet and that packet; 0: it is not known. In a
// feed that is slow it is measured from a packet of before. Only some of the recent packets are looked at: the pace need not be exact.
func (c *Channel[R]) pace() float64 {
	const looks = 8
	var from *arrival
	for i := range uint64(looks) {
		r := &c.recent[(c.high+i*recentKept/looks)&(recentKept-1)]
		if r.epoch != c.epoch || r.line == Recovery || r.seq >= c.high || r.at >= c.newestAt {
			continue
		}
		recent := c.newestAt-r.at <= second
		switch {
		case from == nil:
			from = r
		case recent != (c.newestAt-from.at <= second):
			if recent {
				from = r
			}
		case recent == (r.at < from.at): // the oldest of that second, or the newest of those before
			from = r
		}
	}
	if from == nil {
		return 0
	}
	return float64(c.newestAt-from.at) / float64(c.high-from.seq)
}

// reportMissed reports messages of a hole that no line brought in time.
func (c *Channel[R]) reportMissed(r Range, h *hole, why Cause) {
	took := int64(min(h.pace*float64(r.Len()), math.MaxInt32*float64(second)))
	c.events.put(Event{Time: c.now, Since: min(h.after, c.now), Behind: min(h.behind, c.now), Took: took, Kind: Missed, Epoch: c.epoch, Seq: r.From, End: r.To,
		Cause: why})
}

// reportFilled reports those of the messages that the current segment brought that had been reported as missed.
func (c *Channel[R]) reportFilled(came Range) {
	for i := range c.holes.h[:c.holes.n] {
		h := &c.holes.h[i]
		from, to := max(h.From, came.From), min(h.To, came.To)
		if h.phase != waiting && from < to {
			c.events.put(Event{Time: c.now, Kind: Filled, Epoch: c.epoch, Seq: from, End: to, Line: c.cur.Line, Cause: CauseFilled})
		}
	}
}

// giveUpTo gives up the missing messages from next to to-1: they will not be delivered.
func (c *Channel[R]) giveUpTo(to uint64, why Cause) {
	for i := range c.holes.h[:c.holes.n] {
		if h := &c.holes.h[i]; h.phase == waiting && h.From < to {
			c.reportMissed(Range{h.From, min(h.To, to)}, h, why)
		}
	}
	if from := max(c.next, c.high); from < to { // skipped without a hole
		c.reportMissed(Range{from, to}, &hole{after: c.newestAt, behind: c.cur.Arrival, pace: c.pace()}, why)
	}
	c.events.put(Event{Time: c.now, Kind: GaveUp, Epoch: c.epoch, Seq: c.next, End: to, Cause: why})
	n := to - c.next
	c.lostRanges[c.lostCount%lostKept] = Range{c.next, to}
	c.lostCount++
	c.holes.dropBefore(to)
	c.stats.Unrecovered += n
	c.lost += n
	c.next, c.high = to, max(c.high, to)
	c.stale, c.cause = true, why
}

// Event fills e with the oldest event that it has not returned yet; false means that there is none.
func (c *Channel[R]) Event(e *Event) bool { return c.events.take(e) }

// setState changes the state and reports the change by an event.
func (c *Channel[R]) setState(s State, why Cause) {
	c.events.put(Event{Time: c.now, Kind: StateChanged, Epoch: c.epoch, From: c.state, To: s, Seq: c.next, End: c.high,
		Cause: why})
	c.state = s
}

// updateState changes the state to the one that follows from the holes, the end of the session and the messages given up.
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
		c.setState(want, why)
	}
}

// tick sets the channel's clock to now, unless it is later already. The first call begins the times of the lines and of the request budget.
func (c *Channel[R]) tick(now int64) {
	if c.now == math.MinInt64 {
		c.began, c.budgetAt = now, now
	}
	c.now = max(c.now, now)
}
