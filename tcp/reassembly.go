package tcp

import (
	"sort"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// reassembly is the side record of a connection that has received data beyond a gap, or has a duplicate to report.
//
//	held   sorted by sequence number; no two overlap
type reassembly struct {
	conn   ID
	held   []heldPiece
	bytes  int            // of held: hold keeps the sum of all connections, too
	recent []recentRange  // the newest first: RFC 2018 section 4
	twice  wire.SACKBlock // RFC 2883: reported once
	dsack  bool
}

// recentRange is a range to report.
type recentRange struct {
	wire.SACKBlock
	reports uint8 // in how many acknowledgements it was
}

const (
	// maxRecent is how many ranges are remembered for reports: a burst is acknowledged at once, and may have brought more than one report takes.
	maxRecent = 256
	// minReports is how often a range is reported at least, however many there are: an acknowledgement may be lost (RFC 2018 section 4).
	minReports = 2
)

// heldPiece is data beyond a gap.
type heldPiece struct {
	seq     Seq
	payload Payload
}

func (h *heldPiece) end() Seq { return h.seq + Seq(h.payload.Length) }

// maxHeldPieces bounds the pieces of a connection beyond gaps, so that a storm of small ones costs bounded time (CVE-2018-5390 was none).
const maxHeldPieces = 1024

// reassemblyOf returns the connection's side record for data beyond a gap. A connection without one gets a free or new one.
func (t *Table) reassemblyOf(id ID, c *conn) *reassembly {
	if c.reassembly == 0 {
		var at uint32
		if n := len(t.freeReasm); n > 0 {
			at, t.freeReasm = t.freeReasm[n-1], t.freeReasm[:n-1]
		} else {
			at = uint32(len(t.reassemblies))
			t.reassemblies = append(t.reassemblies, new(reassembly))
		}
		c.reassembly = at + 1
		t.reassemblies[at].conn = id
	}
	return t.reassemblies[c.reassembly-1]
}

// idleReassembly returns the side record when nothing is in it.
func (t *Table) idleReassembly(c *conn) {
	if c.reassembly == 0 {
		return
	}
	if r := t.reassemblies[c.reassembly-1]; len(r.held) == 0 && !r.dsack {
		*r = reassembly{held: r.held[:0], recent: r.recent[:0]}
		t.freeReasm = append(t.freeReasm, c.reassembly-1)
		c.reassembly = 0
	}
}

// hold adds n, which may be negative, to the bytes held beyond gaps: of the connection and of all.
func (t *Table) hold(r *reassembly, n int) {
	r.bytes += n
	t.outOfOrder += n
}

// dropReassembly ends the side record of a connection that is over: each buffer held beyond a gap returns by EventDropped.
func (t *Table) dropReassembly(id ID, c *conn) {
	if c.reassembly == 0 {
		return
	}
	r := t.reassemblies[c.reassembly-1]
	for _, h := range r.held {
		t.emit(id, c, Event{Kind: EventDropped, Payload: h.payload})
	}
	t.hold(r, -r.bytes)
	r.held, r.dsack = r.held[:0], false
	t.idleReassembly(c)
}

// keep holds data beyond a gap. What overlaps keeps what came first, except that a piece which covers others whole takes their place. The number
// of pieces is bounded by maxHeldPieces, or, for a large receive buffer, by twice the full segments that it holds.
func (t *Table) keep(id ID, c *conn, seq Seq, p Payload) (kept bool, d wire.Drop) {
	r := t.reassemblyOf(id, c)
	if t.outOfOrder+int(p.Length) > t.config.MaxOutOfOrder || len(r.held) >= max(maxHeldPieces, 2*t.settingsOf(c).ReceiveBuffer/c.payloadLimit()) {
		t.idleReassembly(c)
		return false, wire.TCPBudget
	}
	left, right := seq, seq+Seq(p.Length)
	i := sort.Search(len(r.held), func(i int) bool { return seq.Before(r.held[i].end()) })
	if i < len(r.held) && !seq.Before(r.held[i].seq) { // begins within piece i
		if h := &r.held[i]; !h.end().Before(right) {
			r.report(left, right)
			r.noteRecent(i)
			t.stats.Duplicate++
			return false, wire.Accept
		}
		r.report(left, r.held[i].end())
		p = p.cut(r.held[i].end().Minus(seq))
		seq = r.held[i].end()
		i++
	}
	j := i
	for j < len(r.held) && !right.Before(r.held[j].end()) { // whole pieces that it covers
		r.report(r.held[j].seq, r.held[j].end())
		t.hold(r, -int(r.held[j].payload.Length))
		t.emit(id, c, Event{Kind: EventDropped, Payload: r.held[j].payload})
		j++
	}
	if j < len(r.held) && r.held[j].seq.Before(right) { // its end lies within the next
		r.report(r.held[j].seq, right)
		p = p.first(r.held[j].seq.Minus(seq))
	}
	if p.Length == 0 { // the gap between two pieces was none
		if j > i {
			r.held = append(r.held[:i], r.held[j:]...)
		}
		r.noteRecent(max(i-1, 0))
		return false, wire.Accept
	}
	switch {
	case j == i:
		r.held = append(r.held, heldPiece{})
		copy(r.held[i+1:], r.held[i:])
	case j > i+1:
		r.held = append(r.held[:i+1], r.held[j:]...)
	}
	r.held[i] = heldPiece{seq, p}
	t.hold(r, int(p.Length))
	r.noteRecent(i)
	return true, wire.Accept
}

// noteRecent puts the range that piece i lies in first among the blocks to report: RFC 2018 section 4.
func (r *reassembly) noteRecent(i int) {
	left, right := r.held[i].seq, r.held[i].end()
	n := 0
	for _, old := range r.recent {
		if from, to := Seq(old.Left), Seq(old.Right); right.Before(from) || to.Before(left) {
			r.recent[n] = old
			n++
		} else { // they touch
			left, right = minSeq(left, from), maxSeq(right, to)
		}
	}
	if n = min(n, maxRecent-1); n == len(r.recent) {
		r.recent = append(r.recent, recentRange{})
	}
	r.recent = r.recent[:n+1]
	copy(r.recent[1:], r.recent)
	r.recent[0] = recentRange{SACKBlock: wire.SACKBlock{Left: uint32(left), Right: uint32(right)}}
}

// done reports whether the range is among the first n blocks of the segment.
func (b *recentRange) done(s *Segment, n int) bool {
	for _, other := range s.Options.SACK[:n] {
		if other == b.SACKBlock {
			return true
		}
	}
	return false
}

// report notes a range that came twice: RFC 2883.
func (r *reassembly) report(left, right Seq) {
	if !r.dsack && left.Before(right) {
		r.twice, r.dsack = wire.SACKBlock{Left: uint32(left), Right: uint32(right)}, true
	}
}

// noteDuplicate notes data that was delivered before.
func (t *Table) noteDuplicate(id ID, c *conn, left, right Seq) {
	if c.has(flagSACK) && left.Before(right) {
		t.reassemblyOf(id, c).report(left, right)
	}
}

// drain delivers the held data that is in order now, after a segment has filled the gap before it.
func (t *Table) drain(id ID, c *conn) {
	if c.reassembly == 0 {
		return
	}
	r := t.reassemblies[c.reassembly-1]
	n := 0
	for n < len(r.held) && !c.rcvNxt.Before(r.held[n].seq) {
		h := r.held[n]
		t.hold(r, -int(h.payload.Length))
		if cut := c.rcvNxt.Minus(h.seq); cut < int(h.payload.Length) {
			if cut > 0 {
				r.report(h.seq, c.rcvNxt)
			}
			t.deliver(id, c, h.payload.cut(cut))
		} else {
			r.report(h.seq, h.end())
			t.emit(id, c, Event{Kind: EventDropped, Payload: h.payload})
		}
		n++
	}
	if n > 0 {
		r.held = append(r.held[:0], r.held[n:]...)
		c.flags |= flagAckNow // RFC 5681 section 4.2: a gap was filled
	}
	m := 0
	for _, b := range r.recent {
		if c.rcvNxt.Before(Seq(b.Left)) {
			r.recent[m] = b
			m++
		}
	}
	r.recent = r.recent[:m]
	t.idleReassembly(c)
}

// sackHeader is how long a SACK option is without blocks, with what aligns it.
const sackHeader = 4

// putSACK writes the SACK option of a segment: a duplicate first (RFC 2883), then the newest range, then those that were reported least often
// (RFC 2018 section 4); three blocks beside timestamps, else four, and no more than fit beside the payload. If none fits, an acknowledgement
// without payload follows.
func (t *Table) putSACK(c *conn, s *Segment) {
	r := t.reassemblies[c.reassembly-1]
	limit := wire.TCPMaxSACK
	if c.has(flagTS) {
		limit--
	}
	if n := int(s.Payload.Length); n > 0 {
		limit = min(limit, max(int(c.mss)-n-s.Options.Len()-sackHeader, 0)/8)
	}
	if limit == 0 && (r.dsack || len(r.recent) > 0) {
		c.flags |= flagAckNow
		return
	}
	n := 0
	if r.dsack {
		s.Options.SACK[0], n = r.twice, 1
		r.dsack = false
	}
	put := func(b *recentRange) {
		s.Options.SACK[n] = b.SACKBlock
		b.reports = min(b.reports+1, minReports)
		n++
	}
	// The newest; those that were reported too rarely; the rest again. An attacker makes the list long: no range is looked at without need.
	if len(r.recent) > 0 && n < limit {
		put(&r.recent[0])
	}
reports:
	for reports := uint8(1); reports <= minReports; reports++ {
		for i := range r.recent {
			if b := &r.recent[i]; b.reports < reports && !b.done(s, n) {
				if n == limit {
					c.flags |= flagAckNow // one acknowledgement more
					break reports
				}
				put(b)
			}
		}
	}
	for i := 1; i < len(r.recent) && n < limit; i++ {
		if b := &r.recent[i]; !b.done(s, n) {
			put(b)
		}
	}
	if n > 0 {
		s.Options.Has |= wire.TCPHasSACK
		s.Options.SACKCount = uint8(n)
	}
	t.idleReassembly(c)
}
