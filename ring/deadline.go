package ring

import (
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wheel"
)

// timerMask: deadlines are looked at on every 16th Poll, so that a spinning ring with deadlines set pays the clock (about 40 ns)
// seldom. They are looked at in any case after a sleep, and when the Polls since the last look took long (clock.Gap).
const timerMask = 15

// timerKind is what a timer of the ring is for; the low bits of a timer's data, the socket's slot and generation above them.
type timerKind uint8

const (
	timerRead    timerKind = iota // SetReadDeadline
	timerWrite                    // SetWriteDeadline
	timerConnect                  // SetConnectTimeout
	timerAccept                   // accept again after the descriptor limit
	timerClose                    // Close has waited long enough
	numTimers
)

// timerData is what the wheel returns when the timer expires: the socket's slot and generation, and the kind of timer.
func timerData(s *Socket, k timerKind) uint64 {
	return uint64(s.handle.Gen)<<32 | uint64(s.handle.Slot)<<3 | uint64(k)
}

// deadlines are the timers of a ring's sockets.
type deadlines struct {
	wheel   *wheel.Wheel
	expired func(uint64) // Ring.timerExpired, bound once
	gap     clock.Gap    // since the deadlines were looked at
	isReal  bool         // the clock is the processor's too: gap counts. A virtual clock stands still meanwhile
}

// needLook reports whether a Poll looks at the deadlines, if there are any.
func (d *deadlines) needLook(turn uint64) bool {
	return turn&timerMask == 0 || d.isReal && d.gap.Long()
}

// expireLimit bounds the deadlines handled in one Poll.
const expireLimit = 256

// expire handles the deadlines that are due, at most expireLimit of them; Poll calls it. If more are due, the next Poll looks again and the ring
// does not sleep before.
func (r *Ring) expire() {
	if r.deadlines.isReal {
		r.deadlines.gap.Begin()
	}
	_, more := r.deadlines.wheel.Expire(r.clock(), expireLimit, r.deadlines.expired)
	if more {
		r.inbox.wake()
		r.turn |= timerMask // the next Poll looks at the deadlines
	}
}

// timerExpired is called by the wheel for a deadline that is due; data is timerData's.
func (r *Ring) timerExpired(data uint64) {
	slot, gen, kind := uint32(data)>>3, uint32(data>>32), timerKind(data&7)
	s := r.sink.Socket(slot, gen)
	if s == nil {
		return
	}
	a := s.activate()
	a.timers[kind] = 0
	switch kind {
	case timerRead:
		a.passed |= EventIn
		s.makeReady()
	case timerWrite:
		a.passed |= EventOut
		s.makeReady()
	case timerConnect:
		s.onConnectTimeout()
	case timerAccept:
		s.start(stopBackoff)
	case timerClose:
		_ = s.abort()
	}
}

// setTimer starts, moves or (at clock.Never) stops one of the socket's timers.
func (s *Socket) setTimer(k timerKind, at clock.Time) {
	t := s.active().timers[k]
	if at == clock.Never && t == 0 {
		return
	}
	w, a := s.ring().deadlines.wheel, s.activate()
	switch {
	case at == clock.Never:
		w.Stop(t)
		a.timers[k] = 0
	case t != 0:
		if moved, ok := w.Reset(t, at); ok {
			a.timers[k] = moved
			return
		}
		fallthrough // it has expired meanwhile
	default:
		a.timers[k] = w.Start(at, timerData(s, k))
	}
}

// stopTimers stops all of the socket's timers: it has failed, or is being closed.
func (s *Socket) stopTimers() {
	for k := range numTimers {
		s.setTimer(k, clock.Never)
	}
	s.forgetPassed(EventIn | EventOut)
}

// forgetPassed forgets deadlines that have passed and are not told yet: they were moved, or there is nothing left that could be late.
func (s *Socket) forgetPassed(e Event) {
	if s.active().passed&e != 0 {
		s.activate().passed &^= e
	}
}

// SetReadDeadline makes the ring raise EventIn with ErrDeadline once t has passed, in a completion that tells of deadlines alone; the zero Time
// takes it back. The socket lives on, as a net.Conn does. A suspended socket is told with Resume, and one whose reading has ended not at all.
// Moving a deadline is cheap enough for every packet. Owner only.
func (s *Socket) SetReadDeadline(t time.Time) error {
	return s.setDeadline("set read deadline", timerRead, EventIn, t)
}

// SetWriteDeadline is SetReadDeadline for sending: EventOut with ErrDeadline.
func (s *Socket) SetWriteDeadline(t time.Time) error {
	return s.setDeadline("set write deadline", timerWrite, EventOut, t)
}

// setDeadline is SetReadDeadline and SetWriteDeadline.
func (s *Socket) setDeadline(op string, k timerKind, e Event, t time.Time) error {
	if err := s.usable(op); err != nil {
		return err
	}
	s.forgetPassed(e)
	if t.IsZero() {
		s.setTimer(k, clock.Never)
		return nil
	}
	left := time.Until(t) // before the ring's clock is read: what passes in between makes the deadline later, not earlier
	s.setTimer(k, s.ring().clock().Add(left))
	return nil
}
