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
	drainSleep  = time.Millisecond      // the longest sleep during a shutdown, because no descriptor becomes readable when a step is done
	acceptTurns = ring.PollsForAll + 2  // after so many turns without a new connection the accept queues are taken for empty
	quietFor    = 10 * time.Millisecond // step 3 is done when nothing was received for so long
	checkEvery  = time.Millisecond      // how often all sockets, or all buffers, are asked: that takes time for each of them
	closeLeast  = time.Second           // the least time for step 4, even if Grace is over
	abortFor    = time.Second           // how long step 5 waits for aborted sockets to be closed
)

// shutDown does the steps above, in their order; finish then closes the poller. An error ends it: finish closes the rest.
func (l *Loop) shutDown() error {
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
	closed := l.allClosed(limit)
	if err := l.turnsUntil(func() bool { return closed() || l.posts.aborting() }); err != nil {
		return err
	}
	if l.sockets() > 0 {
		if err := l.abortSockets(); err != nil {
			return err
		}
		if err := l.turnsUntil(l.allClosed(l.clock().Add(abortFor))); err != nil {
			return err
		}
	}
	return l.turnsUntil(l.lentReturned(limit))
}

// The functions below return the condition with which a step of the shutdown ends; turnsUntil asks it once in each turn.

// acceptsDone ends step 1: no ring has accepted a connection in several turns, or limit has come.
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

// accepted returns how many connections the rings have accepted so far, those that AcceptTo has taken among them.
func (l *Loop) accepted() (n uint64) {
	for _, r := range l.poller.Rings() {
		s := r.Stats()
		n += s.Accepted + s.AcceptedAway
	}
	return n
}

// isDrained ends step 3: nothing was received for quietFor and no socket has data to send, or end has come.
func (l *Loop) isDrained(end clock.Time) func() bool {
	start := l.now
	var nextCheck clock.Time
	return func() bool {
		switch {
		case l.now >= end || l.posts.aborting():
			return true
		case l.idle < emptyPolls || l.now.Sub(max(l.lastIO, start)) < quietFor || l.now < nextCheck:
			return false
		}
		nextCheck = l.now.Add(checkEvery)
		return !l.sending()
	}
}

// sending reports whether a socket has data that has not left yet.
func (l *Loop) sending() bool {
	found := false
	_ = l.eachSocket(func(s *xtreme.Socket) { found = found || s.Sending() })
	return found
}

// allClosed ends steps 4 and 5: no socket is left, or limit has come.
func (l *Loop) allClosed(limit clock.Time) func() bool {
	return func() bool { return l.sockets() == 0 || l.now >= limit }
}

// sockets counts the sockets of all rings, those that are closing included.
func (l *Loop) sockets() (n int) {
	for _, r := range l.poller.Rings() {
		n += r.Sockets()
	}
	return n
}

// lentReturned ends step 6: other goroutines have returned all buffers that were lent to them, or limit has come.
func (l *Loop) lentReturned(limit clock.Time) func() bool {
	var nextCheck clock.Time
	return func() bool {
		if l.posts.aborting() {
			return true
		}
		if l.now < nextCheck {
			return l.now >= limit
		}
		nextCheck = l.now.Add(checkEvery)
		return l.poller.Ledger().Lent == 0 || l.now >= limit
	}
}

// eachSocket calls f for each socket of all rings.
func (l *Loop) eachSocket(f func(*xtreme.Socket)) error {
	for _, r := range l.poller.Rings() {
		if err := r.EachSocket(f); err != nil {
			return err
		}
	}
	return nil
}

// closeSockets starts closing the sockets that which selects. A socket that cannot be closed is logged, and does not stop the shutdown; an error
// is that of a ring that does not list its sockets.
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

// abortSockets aborts all sockets that could not be closed in time, and counts them.
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

// finish ends the loop, after an orderly shutdown (cause nil) or an error: it refuses further posts, runs the functions that were posted before
// (not after an error, which may come from one of them), releases packets that the handler has not received, and closes the poller.
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

// closeExternal closes the epoll set of the external descriptors.
func (l *Loop) closeExternal() error {
	if err := l.external.close(); err != nil {
		return fmt.Errorf("external descriptors: close: %w", err)
	}
	return nil
}

// closePoller closes the poller. After a panic in the middle of Poll that may panic itself, which becomes an error here.
func (l *Loop) closePoller() (err error) {
	defer l.contain(&err)
	return l.poller.Close()
}
