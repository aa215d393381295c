package ring

// stop is the reasons why a socket does not read, one bit each. It reads again when no bit is left.
type stop uint8

const (
	stopUser    stop = 1 << iota // Suspend
	stopBudget                   // holds too many buffers
	stopStarved                  // the pool was empty
	stopBackoff                  // accept failed for want of descriptors or memory
	stopEnded                    // FIN, error or not started yet
)

// Suspend stops reading: no more packets are delivered until Resume, the peer's window closes (TCP) or the kernel's receive
// buffer fills and then drops and counts (UDP). What the ring had taken already waits, in order; a
// callback sees it after Resume. A listener stops accepting.
// A failure of the connection ends the suspension: what waits is delivered, then the error.
func (s *Socket) Suspend() error {
	if err := s.usable("suspend"); err != nil {
		return err
	}
	s.stop(stopUser)
	s.updateSlowPath()
	return nil
}

// Resume undoes Suspend.
func (s *Socket) Resume() error {
	if err := s.usable("resume"); err != nil {
		return err
	}
	s.endSuspension()
	list := s.active().withheld
	s.activate().withheld = nil // AcceptTo may suspend the listener again: then the rest is withheld anew
	for _, c := range list {
		s.ring().onAccepted(s, c.conn, c.peer)
	}
	return nil
}

// endSuspension starts reading again and makes the socket ready for what waits: Resume, or the end of the connection.
func (s *Socket) endSuspension() {
	s.start(stopUser)
	s.updateSlowPath()
	if s.deliverable(s.active()) {
		s.makeReady()
	}
}

// OverBudget reports that reading has stopped because the socket holds more buffer memory than it may; it goes on when enough was
// released. Owner only.
func (s *Socket) OverBudget() bool { return s.readable() && s.stops&stopBudget != 0 }

// stop adds a reason for not reading; with the first one the driver stops to receive. Sockets that stop for want of buffers are listed, and
// restartReading looks at them when buffers have returned.
func (s *Socket) stop(why stop) {
	if s.stops&why != 0 || s.active().sending.detaching { // the driver does not receive for a socket that it has let go
		return
	}
	was := s.stops
	s.stops |= why
	r := s.ring()
	if why&(stopBudget|stopStarved) != 0 {
		if why == stopBudget {
			r.stats.BudgetStops++
		}
		if was&(stopBudget|stopStarved) == 0 {
			r.starved.add(s, r.pool.Freed())
		}
	}
	if was == 0 {
		if err := r.drv.SetReceiving(s, false); err != nil {
			r.fail(&OpError{Op: "stop receiving", Err: err})
		}
	}
}

// start takes a reason for not reading away; with the last one the driver receives again.
func (s *Socket) start(why stop) {
	if s.stops&why == 0 {
		return
	}
	s.stops &^= why
	if s.stops == 0 && (s.state < stateClosing || s.active().lingering) {
		if err := s.ring().drv.SetReceiving(s, true); err != nil {
			s.ring().fail(&OpError{Op: "receive", Err: err})
		}
	}
}

// restartLimit bounds how many stopped sockets one Poll looks at.
const restartLimit = 64

// starvedSockets are the sockets of a ring that have stopped reading for want of buffers. A round looks at each of them once, at most
// restartLimit in one Poll; the next round begins when further buffers were freed. Its methods are given Pool.Freed.
type starvedSockets struct {
	list  []*Socket
	freed uint64 // when the last round began
	left  int    // of list, not yet looked at in this round
	batch [restartLimit]*Socket
}

// add lists a socket. With the first one a round ends: every buffer freed from here on may let the socket go on; an older count would make one
// round too many, a later one would miss buffers.
func (x *starvedSockets) add(s *Socket, freed uint64) {
	if len(x.list) == 0 {
		x.endRound(freed)
	}
	x.list = append(x.list, s)
}

// hasRound reports whether sockets are to be looked at.
func (x *starvedSockets) hasRound(freed uint64) bool {
	return len(x.list) > 0 && (x.left > 0 || freed != x.freed)
}

// endRound notes that all were looked at.
func (x *starvedSockets) endRound(freed uint64) { x.freed, x.left = freed, 0 }

// take takes the next sockets of a round off the list, or the first ones of a new round. The caller clears the places.
func (x *starvedSockets) take(freed uint64) []*Socket {
	if freed != x.freed {
		x.freed, x.left = freed, len(x.list)
	}
	n := min(x.left, len(x.list), restartLimit)
	x.left -= n
	if n == 0 {
		x.left = 0
		return nil
	}
	batch := x.batch[:copy(x.batch[:n], x.list)]
	x.list = x.list[:copy(x.list, x.list[n:])]
	return batch
}

// restartReading starts sockets that had stopped for want of buffers, as far as their budgets now allow. Poll calls it.
func (r *Ring) restartReading() {
	batch := r.starved.take(r.pool.Freed())
	for i, s := range batch {
		batch[i] = nil
		switch {
		case !s.canRestart():
			r.starved.list = append(r.starved.list, s)
		case s.state >= stateDead && !s.active().lingering:
			s.stops &^= stopBudget | stopStarved
		default:
			s.start(stopBudget | stopStarved)
		}
	}
}

// IsStarving reports that a socket which had stopped reading for want of buffers could go on now: the ring must be polled, not waited for.
// A poller of several rings asks all of them after it has armed the last one, because arming a ring returns buffers to the pool. Owner only.
func IsStarving(r *Ring) bool {
	if !r.readable() {
		return false
	}
	if !r.starved.hasRound(r.pool.Freed()) {
		return false
	}
	for _, s := range r.starved.list {
		if s.canRestart() {
			return true
		}
	}
	r.starved.endRound(r.pool.Freed()) // what was freed must not keep the ring awake
	return false
}

// canRestart reports whether the next round takes the socket off the stopped ones.
func (s *Socket) canRestart() bool {
	p := s.ring().pool
	return s.state >= stateDead && !s.active().lingering || !p.Over(s.handle.Account) && p.CanReceive(s.handle.Class)
}

// offerFreed wakes the set's other rings that are armed and have a socket which can go on with what was freed since.
func (r *Ring) offerFreed(since uint64) {
	if r.pool.Freed() == since {
		return
	}
	for _, x := range r.set.rings {
		if x != r && x.armed && IsStarving(x) {
			x.inbox.wake()
		}
	}
}
