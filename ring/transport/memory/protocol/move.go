package protocol

import (
	"slices"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// Export takes a connection out of the table as it is, for Import into another one, without a segment or an event. The ID is not valid any more.
// An accepted connection must not be exported before Take.
func (t *Table) Export(id ID) Conn {
	c := &t.conns[id]
	t.removeLookup(c)
	if c.timer != 0 {
		t.timers.Stop(c.timer)
		c.timer = 0
	}
	t.blocked = slices.DeleteFunc(t.blocked, func(x ID) bool { return x == id })
	t.owing = slices.DeleteFunc(t.owing, func(x ID) bool { return x == id })
	moved := *c
	moved.flags &^= flagBlocked | flagOwing
	t.conns[id] = Conn{}
	t.free = append(t.free, id)
	return moved
}

// Import puts a connection of another table into this one. It goes on with the next Resume, when the Host knows its ID. Error: ErrInUse.
func (t *Table) Import(now clock.Time, c Conn) (ID, error) {
	t.now = now
	if c.state == Closed { // no segment is to find it: another connection may have its endpoints
		id := t.newRecord()
		t.conns[id] = c
		return id, nil
	}
	if _, used := t.lookup[pair{c.local, c.remote}]; used {
		return NoID, ErrInUse
	}
	id := t.newRecord()
	t.conns[id] = c
	t.conns[id].flags |= flagInLookup
	t.lookup[pair{c.local, c.remote}] = id
	t.addBlocked(id, &t.conns[id])
	t.conns[id].flags |= flagAckNow // the peer's frames come to the new link after it
	t.schedule(id)
	return id, nil
}

// Knows reports whether the segment is for a connection or a listener of the table.
func (t *Table) Knows(s *Segment) bool {
	if _, ok := t.lookup[pair{s.Target, s.Source}]; ok {
		return true
	}
	return s.Flags&(SYN|ACK) == SYN && t.listening(s.Target) != nil
}

// Taken reports whether the connection does not wait at a listener: it was accepted and taken, or was begun by Connect.
func (t *Table) Taken(id ID) bool { return t.conns[id].listener == 0 }
