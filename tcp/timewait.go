package tcp

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// timeWait is a connection in TIME-WAIT: what answers late segments, and lets a new connection have the addresses early.
type timeWait struct {
	local, remote      Endpoint
	sndNxt, rcvNxt     Seq
	tsRecent, tsOffset uint32
	user               uint64
	window             uint16
	ts, live           bool
	due                clock.Time
	challenged         clock.Time
	next, prev         uint32 // in order of due
}

// timeWaits are all of them. Each waits equally long, so that one list is in order of time.
type timeWaits struct {
	all         []timeWait
	free        []uint32
	first, last uint32
	count       int
}

// enterTimeWait is the orderly end on the side that closed first: RFC 9293 MUST-13. The addresses go to a small record; the connection's stays
// only until the application closes it.
func (t *Table) enterTimeWait(id ID, c *conn) {
	w := timeWait{local: c.local, remote: c.remote, sndNxt: c.nxt, rcvNxt: c.rcvNxt, tsRecent: c.tsRecent, tsOffset: c.tsOffset, user: c.user,
		ts: c.has(flagTS), live: true, window: c.offered()}
	acknowledge := c.has(flagAckNow)
	c.become(TimeWait)
	t.removeFlow(id, c) // in the directory the flow stays the table's
	t.detach(id, c)
	at := t.timeWaits.add(t, w)
	if acknowledge {
		t.answerTimeWait(&t.timeWaits.all[at])
	}
	if c.has(flagAppClosed) {
		t.forget(id, c)
	}
}

// add stores a record behind the others, enters it into the flow table and returns its place. With MaxTimeWait records the oldest one ends.
func (q *timeWaits) add(t *Table, w timeWait) uint32 {
	if q.count >= t.config.MaxTimeWait {
		q.remove(t, q.first-1) // the oldest ends early
	}
	var at uint32
	if n := len(q.free); n > 0 {
		at, q.free = q.free[n-1], q.free[:n-1]
		q.all[at] = w
	} else {
		at = uint32(len(q.all))
		q.all = append(q.all, w)
	}
	q.count++
	q.addToRow(t, at)
	t.flows.add(w.local, w.remote, refOf(refTimeWait, at))
	return at
}

// addToRow puts a record at the end of the list, due in Config.TimeWait from now.
func (q *timeWaits) addToRow(t *Table, at uint32) {
	w := &q.all[at]
	w.due, w.next, w.prev = t.now.Add(t.config.TimeWait), 0, q.last
	if q.last != 0 {
		q.all[q.last-1].next = at + 1
	} else {
		q.first = at + 1
	}
	q.last = at + 1
}

// removeFromRow takes a record out of the list.
func (q *timeWaits) removeFromRow(at uint32) {
	w := &q.all[at]
	if w.prev != 0 {
		q.all[w.prev-1].next = w.next
	} else {
		q.first = w.next
	}
	if w.next != 0 {
		q.all[w.next-1].prev = w.prev
	} else {
		q.last = w.prev
	}
}

// remove ends a record: its addresses are free, and its place too.
func (q *timeWaits) remove(t *Table, at uint32) {
	w := &q.all[at]
	q.removeFromRow(at)
	t.flows.remove(w.local, w.remote, refOf(refTimeWait, at))
	t.leave(w.local, w.remote)
	w.live = false
	q.free = append(q.free, at)
	q.count--
}

// EachTimeWait calls f for each connection in TIME-WAIT that a listener on local would have accepted, with the user of its record. f must not
// call the table.
func (t *Table) EachTimeWait(local Endpoint, f func(local, remote Endpoint, user uint64)) {
	for at := t.timeWaits.first; at != 0; {
		w := &t.timeWaits.all[at-1]
		at = w.next
		if w.local == local || local.Addr == (wire.Addr{}) && w.local.Port == local.Port {
			f(w.local, w.remote, w.user)
		}
	}
}

// expire ends the records whose time is over. more: the limit of one call was reached, and records are still due.
func (q *timeWaits) expire(t *Table) (more bool) {
	for budget := expireLimit; q.first != 0 && q.all[q.first-1].due <= t.now; budget-- {
		if budget == 0 {
			return true
		}
		q.remove(t, q.first-1)
	}
	return false
}

// deadline is when the first record is due; clock.Never without records.
func (q *timeWaits) deadline() clock.Time {
	if q.first == 0 {
		return clock.Never
	}
	return q.all[q.first-1].due
}

// arrivesTimeWait takes a segment for a connection in TIME-WAIT: RFC 9293 section 3.10.7.4. A SYN that timestamp or sequence number show to be
// new goes to the listener. kept and d are those of Input.
func (t *Table) arrivesTimeWait(at uint32, s *Segment) (kept bool, d wire.Drop) {
	w := &t.timeWaits.all[at]
	isOld := w.ts && s.Options.Has&wire.TCPHasTimestamps != 0 && int32(s.Options.TSValue-w.tsRecent) < 0
	switch {
	case s.Flags&wire.TCPRst != 0:
		return false, wire.TCPUnacceptable // RFC 1337 section 3, fix (a)
	case w.isBegin(s):
		if t.listening(s.Local) == 0 {
			break
		}
		t.timeWaits.remove(t, at)
		return t.arrivesListen(s)
	}
	if isOld { // PAWS
		t.stats.Old++
		t.challengeTimeWait(w)
		return false, wire.TCPOld
	}
	if s.Flags&(wire.TCPFin|wire.TCPAck) == wire.TCPFin|wire.TCPAck && s.Seq+Seq(s.Payload.Length)+1 == w.rcvNxt {
		// The peer's FIN again: it is acknowledged, and the time begins anew.
		t.answerTimeWait(w)
		t.timeWaits.removeFromRow(at)
		t.timeWaits.addToRow(t, at)
		return false, wire.Accept
	}
	if s.span() > 0 || s.Seq != w.rcvNxt || s.Ack != w.sndNxt {
		t.challengeTimeWait(w)
		return false, wire.TCPUnacceptable
	}
	return false, wire.Accept
}

// isBegin reports whether a segment begins a new connection of the same addresses: a SYN whose timestamp, or number, is a later one (MAY-2,
// RFC 6191 section 2).
func (w *timeWait) isBegin(s *Segment) bool {
	if s.Flags&(wire.TCPSyn|wire.TCPAck) != wire.TCPSyn {
		return false
	}
	if w.ts && s.Options.Has&wire.TCPHasTimestamps != 0 && s.Options.TSValue != w.tsRecent {
		return int32(s.Options.TSValue-w.tsRecent) > 0
	}
	return w.rcvNxt.Before(s.Seq)
}

// GiveWay ends a record in TIME-WAIT for a SYN that begins a new connection of the same addresses, if another table of the directory listens for
// it, and none here does. It reports whether it did: the SYN is for the table that Directory.Find names then.
func (t *Table) GiveWay(now clock.Time, s *Segment) bool {
	t.now = now
	d := t.config.Directory
	r := t.find(s.Local, s.Remote)
	if d == nil || r == 0 || r.kind() != refTimeWait || t.listening(s.Local) != 0 || !t.timeWaits.all[r.index()].isBegin(s) ||
		d.listening(s.Local, d.hasher.hash(s.Local, s.Remote)) == 0 {
		return false
	}
	t.timeWaits.remove(t, r.index())
	return true
}

// challengeTimeWait acknowledges a segment that is not acceptable, at most once in Config.ChallengeInterval (RFC 5961 section 7).
func (t *Table) challengeTimeWait(w *timeWait) {
	if w.challenged != 0 && t.now.Sub(w.challenged) < t.config.ChallengeInterval {
		return
	}
	w.challenged = t.now
	t.stats.Challenges++
	t.answerTimeWait(w)
}

// answerTimeWait sends the acknowledgement of all that the peer has sent.
func (t *Table) answerTimeWait(w *timeWait) {
	s := Segment{Local: w.local, Remote: w.remote, Seq: w.sndNxt, Ack: w.rcvNxt, Flags: wire.TCPAck, User: w.user, Window: w.window}
	if w.ts {
		s.Options.Has = wire.TCPHasTimestamps
		s.Options.TSValue, s.Options.TSEcho = timestamp(t.now)+w.tsOffset, w.tsRecent
	}
	t.sendControl(s)
}

// leaveTimeWait ends a record so that Connect can use its addresses, if timestamps distinguish the two connections: RFC 6191 section 2. It
// returns the initial sequence number of the new connection, which is beyond those of the former one; false: the addresses are still in use.
func (t *Table) leaveTimeWait(at uint32) (Seq, bool) {
	w := &t.timeWaits.all[at]
	if !w.ts || w.due.Sub(t.now) > t.config.TimeWait-clock.Second { // the peer's clock has moved on, too
		return 0, false
	}
	iss := w.sndNxt + 65535 + 2
	t.timeWaits.remove(t, at)
	return iss, true
}
