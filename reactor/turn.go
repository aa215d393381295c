package reactor

import (
	"errors"
	"fmt"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// phase is whose code a turn is in: what a panic is to be blamed on.
type phase uint8

const (
	inRing phase = iota // Poll, Flush, Wait; of the program's code only Poller.Post's functions panic there
	inHandler
	inTimer
	inPosted
	inExternal
	inStart
	inStop
)

func (p phase) String() string {
	return [...]string{"ring", "handler", "timer", "posted function", "external descriptor", "Start", "Stop"}[p]
}

const (
	// longGap between two turns means that the loop was held up (a garbage collection, a stopped process, a slow
	// handler), so that what the rings hold may be older than the timers that are due.
	longGap = 5 * time.Millisecond
	// emptyPolls in a row show that nothing of that time is left: a ring's first may only have emptied what it had
	// fetched.
	emptyPolls = 2
	// catchUpMax bounds the Polls with which one turn catches up.
	catchUpMax = 64
	// failuresMax is how many Polls in a row may fail before the loop gives up.
	failuresMax = 64
)

// turnsUntil takes turns until done says so. Panics that the policy survives cost one call of attempt, not a deferred
// function per turn.
func (l *Loop) turnsUntil(done func() bool) error {
	for {
		if over, err := l.attempt(done); over || err != nil {
			return err
		}
	}
}

func (l *Loop) attempt(done func() bool) (over bool, err error) {
	defer l.contain(&err)
	l.run() // what a panic left of the batch
	if err := l.submit(); err != nil {
		return false, err
	}
	for !done() {
		if err := l.turn(); err != nil {
			return false, err
		}
	}
	return true, nil
}

// turn is one round: reap, run, submit, rest.
func (l *Loop) turn() error {
	l.begin(l.clock())
	if _, err := l.reap(); err != nil {
		return err
	}
	l.run()
	if l.wheel.Len() > 0 {
		if err := l.expire(); err != nil {
			return err
		}
	}
	if l.posts.waiting() {
		l.runPosted()
	}
	if l.external.count() > 0 {
		if err := l.pollExternal(); err != nil {
			return err
		}
	}
	if l.busy {
		l.stats.BusyTurns++
		if err := l.submit(); err != nil {
			return err
		}
	}
	return l.sleepIfIdle()
}

// begin closes the books of the turn before and reads the clock for this one.
func (l *Loop) begin(now clock.Time) {
	gap := now.Sub(l.now)
	l.stats.Turns++
	l.stats.Time += gap
	if l.busy {
		l.stats.Busy += gap
	}
	if gap > longGap {
		l.behind = emptyPolls
	}
	if l.slept {
		l.stats.Slept += gap
	} else {
		l.stats.Gaps.add(gap)
		l.stats.LongestTurn = max(l.stats.LongestTurn, gap)
		if gap > longGap {
			l.stats.LongGaps++
		}
	}
	l.now = now
	l.busy, l.busyIO, l.slept = false, false, false
}

// reap polls the rings into the batch.
func (l *Loop) reap() (int, error) {
	n, err := l.poller.Poll(l.batch)
	l.at, l.count = 0, n
	switch {
	case n > 0:
		l.busy, l.busyIO = true, true
	case l.behind > 0 && err == nil: // an error comes without completions and proves nothing of them
		l.behind--
	}
	if err != nil || l.failing > 0 {
		return n, l.polled(err)
	}
	return n, nil
}

// polled decides what an error of Poll means. Most tell of one socket's trouble where there was no caller to return it to;
// the rings go on. An error comes alone, after the completions of the Poll in which it happened. A ring that returns nothing but
// errors is broken.
func (l *Loop) polled(err error) error {
	if err == nil {
		l.failing = 0
		return nil
	}
	l.stats.RingErrors++
	l.failing++
	stop := errors.Is(err, ring.ErrOwner) || errors.Is(err, ring.ErrClosed) || l.failing >= failuresMax
	if panics := l.newCallbackPanics(); panics > 0 {
		l.stats.Panics += panics
		stop = stop || l.config.OnPanic == StopLoop
	}
	if stop {
		return fmt.Errorf("poll: %w", err)
	}
	if l.failing == 1 {
		l.log.Warn("ring error", "error", err)
	}
	return nil
}

// newCallbackPanics is how many panics of receive callbacks the rings have contained since it was last asked.
func (l *Loop) newCallbackPanics() uint64 {
	before := l.callbackPanics
	l.callbackPanics = 0
	for _, r := range l.poller.Rings() {
		l.callbackPanics += r.Stats().CallbackPanics
	}
	return l.callbackPanics - before
}

// run hands what is left of the batch to the handler.
func (l *Loop) run() {
	if l.at == l.count {
		return
	}
	h := l.handler
	l.doing = inHandler
	l.stats.Completions += uint64(l.count - l.at)
	for l.at < l.count {
		c := &l.batch[l.at]
		l.at++
		h.Handle(l, c)
	}
	l.doing = inRing
}

// Next is the completion that follows the one being handled in the same batch, nil at its end: a handler that can take several
// at once looks there, and leaves it for the call in which it comes. Loop only, inside Handle.
func (l *Loop) Next() *xtreme.Completion {
	if l.doing != inHandler || l.at >= l.count {
		return nil
	}
	return &l.batch[l.at]
}

// catchUp handles what came during a long gap, so that timers which that was to move or cancel do not fire first.
func (l *Loop) catchUp() error {
	for range catchUpMax {
		n, err := l.reap()
		if err != nil {
			return err
		}
		if l.behind == 0 {
			return nil
		}
		if n > 0 {
			l.run()
		}
	}
	l.behind = 0 // a flood that does not end must not hold the timers for ever
	return nil
}

// submit starts what the turn prepared.
func (l *Loop) submit() error {
	if err := l.poller.Flush(); err != nil {
		if errors.Is(err, ring.ErrClosed) || errors.Is(err, ring.ErrOwner) {
			return err
		}
		return l.polled(err)
	}
	return nil
}
