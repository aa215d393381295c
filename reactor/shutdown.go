package reactor

import (
	"errors"
	"fmt"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Shutting down loses nothing that was accepted. In this order, with turns taken all the while:
//
//  1. the listeners' queues are emptied: closing a listener resets the connections in them
//  2. the listeners are closed, and Stopper.Stop is called
//  3. what is in flight is served, until nothing more comes and nothing waits to be sent, or Grace is over
//  4. every socket is closed: what was sent goes out, then FIN; CLOSED is delivered
//  5. what cannot be closed in time is aborted, and counted
//  6. packets lent to other goroutines come back
const (
	drainSleep  = time.Millisecond // the longest sleep meanwhile: the stages have conditions that no descriptor reports
	acceptTurns = 3                // turns without a new connection that show an empty accept queue
	quietFor    = 10 * time.Millisecond
	lookEvery   = time.Millisecond // looking through all sockets costs time for each
	closeLeast  = time.Second      // for step 4, should Grace be over
	abortFor    = time.Second
)

// wind is the orderly shutdown, up to the closing of the poller.
func (l *Loop) wind() error {
	l.longestSleep = drainSleep
	start := l.clock()
	end := start.Add(l.config.Grace)

	if err := l.turnsUntil(l.acceptsDone(start.Add(l.config.Grace / 2))); err != nil {
		return err
	}
	if err := l.closeSockets(func(s *xtreme.Socket) bool { return s.Kind() == ring.KindListener }); err != nil {
		return err
	}
	if s, ok := l.handler.(Stopper); ok {
		if err := l.guarded(inStop, func() { s.Stop(l) }); err != nil {
			return err
		}
	}
	if err := l.turnsUntil(l.isDrained(end)); err != nil {
		return err
	}
	if err := l.closeSockets(func(*xtreme.Socket) bool { return true }); err != nil {
		return err
	}
	limit := max(end, l.clock().Add(closeLeast))
	closed := l.gone(limit)
	if err := l.turnsUntil(func() bool { return closed() || l.posts.aborting() }); err != nil {
		return err
	}
	if l.sockets() > 0 {
		if err := l.abortSockets(); err != nil {
			return err
		}
		if err := l.turnsUntil(l.gone(l.clock().Add(abortFor))); err != nil {
			return err
		}
	}
	return l.turnsUntil(l.lentReturned(limit))
}

// acceptsDone reports when the accept queues are empty.
func (l *Loop) acceptsDone(limit clock.Time) func() bool {
	before, calm := l.accepted(), 0
	return func() bool {
		if a := l.accepted(); a == before && l.count < len(l.batch) {
			calm++
		} else {
			before, calm = a, 0
		}
		return calm > acceptTurns || l.now >= limit || l.posts.aborting()
	}
}

func (l *Loop) accepted() (n uint64) {
	for _, r := range l.poller.Rings() {
		n += r.Stats().Accepted
	}
	return n
}

// isDrained reports when nothing has come for a while and nothing waits to go, or time is up.
func (l *Loop) isDrained(end clock.Time) func() bool {
	start := l.now
	var nextLook clock.Time
	return func() bool {
		switch {
		case l.now >= end || l.posts.aborting():
			return true
		case l.idle < emptyPolls || l.now.Sub(max(l.lastIO, start)) < quietFor || l.now < nextLook:
			return false
		}
		nextLook = l.now.Add(lookEvery)
		return !l.sending()
	}
}

func (l *Loop) sending() bool {
	found := false
	_ = l.eachSocket(func(s *xtreme.Socket) { found = found || s.Sending() })
	return found
}

// gone reports when no socket is left, or time is up.
func (l *Loop) gone(limit clock.Time) func() bool {
	return func() bool { return l.sockets() == 0 || l.now >= limit }
}

func (l *Loop) sockets() (n int) {
	for _, r := range l.poller.Rings() {
		n += r.Sockets()
	}
	return n
}

// lentReturned reports when no buffer is with another goroutine, or time is up.
func (l *Loop) lentReturned(limit clock.Time) func() bool {
	var nextLook clock.Time
	return func() bool {
		if l.posts.aborting() {
			return true
		}
		if l.now < nextLook {
			return l.now >= limit
		}
		nextLook = l.now.Add(lookEvery)
		return l.poller.Ledger().Lent == 0 || l.now >= limit
	}
}

func (l *Loop) eachSocket(f func(*xtreme.Socket)) error {
	for _, r := range l.poller.Rings() {
		if err := r.EachSocket(f); err != nil {
			return err
		}
	}
	return nil
}

func (l *Loop) closeSockets(which func(*xtreme.Socket) bool) error {
	return l.eachSocket(func(s *xtreme.Socket) {
		if !which(s) {
			return
		}
		if err := s.Close(); err != nil && !errors.Is(err, ring.ErrClosed) {
			l.log.Warn("shutdown: close", "socket", s.ID(), "error", err)
		}
	})
}

func (l *Loop) abortSockets() error {
	return l.eachSocket(func(s *xtreme.Socket) {
		switch err := s.Abort(); {
		case err == nil:
			l.stats.Aborted++
		case !errors.Is(err, ring.ErrClosed):
			l.log.Warn("shutdown: abort", "socket", s.ID(), "error", err)
		}
	})
}

// finish ends the loop: the posted functions that are left run (not after an error: it may be theirs), what the handler
// did not see is released, the poller is closed.
func (l *Loop) finish(cause error) error {
	l.doing = inRing
	l.posts.close()
	var err error
	if cause == nil {
		for err == nil && l.posts.waiting() {
			err = l.guarded(inPosted, l.runPosted)
		}
	} else if !errors.Is(cause, ring.ErrOwner) {
		l.stats.Aborted += uint64(l.sockets())
	}
	l.stats.Dropped += l.posts.drop()
	for ; l.at < l.count; l.at++ {
		release(&l.batch[l.at])
	}
	err = errors.Join(err, l.closeExternal(), l.closePoller())
	l.posts.end(l.Stats())
	return err
}

func (l *Loop) closeExternal() error {
	if err := l.external.close(); err != nil {
		return fmt.Errorf("external descriptors: close: %w", err)
	}
	return nil
}

// closePoller closes the poller even if that panics, as it may after a panic in the middle of Poll.
func (l *Loop) closePoller() (err error) {
	defer l.contain(&err)
	return l.poller.Close()
}
