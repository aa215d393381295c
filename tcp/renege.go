package tcp

import "github.com/socketxtreme/socketxtreme/internal/wire"

// Renege discards data beyond gaps until n bytes are free, and returns how many are; EventDropped gives the buffers back. A transport that runs
// out of buffers calls it before it refuses segments: this data may be discarded, because its sender keeps it until it is acknowledged, although
// it was SACKed (RFC 2018 section 8). What is in order is never discarded, nor does a window shrink.
//
// The highest numbers go first: they are needed last. Connections take turns.
func (t *Table) Renege(n int) (freed int) {
	for range len(t.reassemblies) {
		if freed >= n {
			break
		}
		if t.reneged++; t.reneged >= len(t.reassemblies) {
			t.reneged = 0
		}
		r := t.reassemblies[t.reneged]
		if len(r.held) == 0 {
			continue
		}
		c := t.conn(r.conn)
		freed += t.discard(c, r, n-freed)
		t.idleReassembly(c)
	}
	return freed
}

// OutOfOrder is how many bytes beyond gaps all connections hold: Renege can free as many.
func (t *Table) OutOfOrder() int { return t.outOfOrder }

// discard drops the held pieces of a connection, the highest numbers first, until n bytes are free, and removes them from the ranges that SACK
// reports.
func (t *Table) discard(c *conn, r *reassembly, n int) (freed int) {
	var from Seq
	for len(r.held) > 0 && freed < n {
		last := r.held[len(r.held)-1]
		from, r.held = last.seq, r.held[:len(r.held)-1]
		freed += int(last.payload.Length)
		t.stats.Reneged++
		t.hold(r, -int(last.payload.Length))
		t.emit(r.conn, c, Event{Kind: EventDropped, Payload: last.payload})
	}
	// RFC 2018 section 8: what is not held any more is not reported any more.
	kept := 0
	for _, b := range r.recent {
		if !Seq(b.Left).Before(from) {
			continue
		}
		b.SACKBlock = wire.SACKBlock{Left: b.Left, Right: uint32(minSeq(Seq(b.Right), from))}
		r.recent[kept] = b
		kept++
	}
	r.recent = r.recent[:kept]
	return freed
}
