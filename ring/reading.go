package ring

// Why reading is stopped; it goes on when no bit is left.
type stop uint8

const (
	stopUser    stop = 1 << iota // Suspend
	stopBudget                   // holds too many buffers
	stopStarved                  // the pool was empty
	stopBackoff                  // accept failed for want of descriptors or memory
	stopEnded                    // FIN, error or not started yet
)

// Suspend stops reading: no more packets are delivered until Resume, the peer's window closes (TCP) or the kernel's receive
// buffer fills and then drops and counts (UDP). What the ring had taken already waits, in order. A listener stops accepting.
// A failure of the connection ends the suspension: what waits is delivered, then the error.
func (s *Socket) Suspend() error {
	if err := s.usable("suspend"); err != nil {
		return err
	}
	s.stop(stopUser)
	s.judge()
	return nil
}

// Resume undoes Suspend.
func (s *Socket) Resume() error {
	if err := s.usable("resume"); err != nil {
		return err
	}
	s.endSuspension()
	list := s.withheld
	s.withheld = nil // AcceptTo may suspend the listener again: then the rest is withheld anew
	for _, c := range list {
		s.ring.accepted(s, c.fd, c.peer)
	}
	return nil
}

func (s *Socket) endSuspension() {
	s.start(stopUser)
	s.judge()
	if s.deliverable() {
		s.makeReady()
	}
}

// OverBudget tells that reading has stopped because the socket holds more buffer memory than it may; it goes on when enough was
// released. Owner only.
func (s *Socket) OverBudget() bool { return s.readable() && s.stops&stopBudget != 0 }

// stop stops reading for one more reason, start takes a reason away.
func (s *Socket) stop(why stop) {
	if s.stops&why != 0 || s.sending.detaching {
		return
	}
	was := s.stops
	s.stops |= why
	r := s.ring
	if why&(stopBudget|stopStarved) != 0 {
		if why == stopBudget {
			r.stats.BudgetStops++
		}
		if was&(stopBudget|stopStarved) == 0 {
			if len(r.stopped) == 0 {
				// Everything freed from here on may set it going again; comparing with an older count would look once too
				// often, comparing with a later one would miss.
				r.freed, r.left = r.pool.Freed(), 0
			}
			r.stopped = append(r.stopped, s)
		}
	}
	if was == 0 {
		if err := r.drv.Receive(s, false); err != nil {
			r.fail(&OpError{Op: "stop receiving", Err: err})
		}
	}
}

func (s *Socket) start(why stop) {
	if s.stops&why == 0 {
		return
	}
	s.stops &^= why
	if s.stops == 0 && (s.state < stateClosing || s.lingering) {
		if err := s.ring.drv.Receive(s, true); err != nil {
			s.ring.fail(&OpError{Op: "receive", Err: err})
		}
	}
}

// restartLimit bounds how many stopped sockets one Poll looks at.
const restartLimit = 64

// restart lets sockets read again that had stopped for want of buffers, as far as the budgets now allow. Each is looked at once
// for what was freed since the last round.
func (r *Ring) restart() {
	if freed := r.pool.Freed(); freed != r.freed {
		r.freed, r.left = freed, len(r.stopped)
	}
	n := min(r.left, len(r.stopped), restartLimit)
	r.left -= n
	if n == 0 {
		r.left = 0
		return
	}
	batch := r.waking[:copy(r.waking[:n], r.stopped)]
	r.stopped = r.stopped[:copy(r.stopped, r.stopped[n:])]
	for i, s := range batch {
		batch[i] = nil
		switch {
		case s.state >= stateDead && !s.lingering:
			s.stops &^= stopBudget | stopStarved
		case !r.pool.Over(s.handle.Account) && r.pool.CanReceive(s.handle.Class):
			s.start(stopBudget | stopStarved)
		default:
			r.stopped = append(r.stopped, s)
		}
	}
}

// restartable tells whether restart has something to look at.
func (r *Ring) restartable() bool {
	return len(r.stopped) > 0 && (r.left > 0 || r.pool.Freed() != r.freed)
}
