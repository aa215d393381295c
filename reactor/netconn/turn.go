package netconn

import (
	"net"
	"os"
	"time"
)

// Readers take turns: one at a time has the bytes in hand. The turn is a mutex that is only ever tried, because the one who
// has it may be in WriteTo, inside a Write of the caller's that takes as long as it likes, and those behind it must see
// their deadline and Close all the same. They wait at a gate, which is made when it is needed: most connections have one
// reader.

// acquireTurn waits until no other reader reads.
func (c *Conn) acquireTurn() error {
	if c.reading.TryLock() {
		return nil
	}
	// From here on unlockTurn, called by the reader that has the turn, wakes this one.
	c.queuing.Add(1)
	defer c.queuing.Add(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn == nil {
		c.turn = new(gate)
		c.turn.init(&c.mu)
		c.turn.deadline = c.in.deadline
	}
	for !c.reading.TryLock() {
		switch {
		case c.closed:
			return net.ErrClosed
		case c.turn.expired():
			return os.ErrDeadlineExceeded
		}
		c.turn.wait()
	}
	return nil
}

// releaseTurn ends a reader's turn. If the connection, or its reading, was closed meanwhile, it releases the data in inHand.
func (c *Conn) releaseTurn() {
	c.unlockTurn()
	if c.released.Load() {
		c.tryEmptyHand()
	}
}

// unlockTurn unlocks reading and wakes the next reader that waits for its turn. A reader adds itself to queuing before it tries the lock again,
// so either this call sees it there, or its TryLock succeeds: no wake-up is lost.
func (c *Conn) unlockTurn() {
	c.reading.Unlock()
	if c.queuing.Load() > 0 { // mu only then: most connections have one reader
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.turn != nil {
			c.turn.wake()
		}
	}
}

// tryEmptyHand releases the data in inHand when the connection or its reading is closed: at once if nobody reads, else the reader does it in
// releaseTurn. released was set before, so one of the two sees the other.
func (c *Conn) tryEmptyHand() {
	if c.reading.TryLock() {
		c.emptyHand()
		c.unlockTurn()
	}
}

// emptyHand releases the data in inHand. The caller has the turn to read.
func (c *Conn) emptyHand() {
	for c.handAt < len(c.inHand) {
		c.inHand[c.handAt].free()
		c.handAt++
	}
	c.inHand, c.handAt = nil, 0
}

// setReadersDeadline sets the deadline of the reader that has the turn, and of those that wait for it. With mu held.
func (c *Conn) setReadersDeadline(t time.Time) {
	c.in.set(t)
	if c.turn != nil {
		c.turn.set(t)
	}
}

// endTurns ends waiting for a turn when the connection is closed. With mu held.
func (c *Conn) endTurns() {
	if c.turn != nil {
		c.turn.wakeAll()
		c.turn.stop()
	}
}
