package reactor

import (
	"errors"
	"fmt"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// phase is the part of a turn that is running, so that a panic can be attributed to it.
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
	// longGap is the time between two turns from which the loop counts as delayed, by a garbage collection, a stopped process or a slow
	// handler: data in the rings may then be older than timers that are due.
	longGap = 5 * time.Millisecond
	// emptyPolls is how many empty Polls in a row show that no data from before a gap is left. One may only show that a ring had no more
	// completions in memory, or that it did not ask for all of its sockets.
	emptyPolls = ring.PollsForAll + 1
	// catchUpMax is how many Polls one turn may use to catch up.
	catchUpMax = 64
	// failuresMax is how many Polls in a row may fail before the loop ends.
	failuresMax = 64
)

// turnsUntil takes turns until done returns true, or an error ends the loop. A panic that the policy contains ends one call of contained, and
// the next one goes on: so there is one deferred function for many turns.
func (l *Loop) turnsUntil(done func() bool) error {
	for {
		if over, err := l.contained(done); over || err != nil {
			return err
		}
	}
}

// contained takes turns for turnsUntil until done returns true (over), an error, or a panic, which it recovers.
func (l *Loop) contained(done func() bool) (over bool, err error) {
	defer l.contain(&err)
	l.run() // completions that were still to be handled when a handler panicked
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

// turn is one round of the loop: poll the rings, call the handler, fire timers, run posted functions, poll external descriptors, start sends,
// and sleep if nothing happened.
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

// begin adds the turn before to the statistics, and starts a turn at the time now.
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

// reap polls the rings into the batch and returns how many completions there are. An error is one that ends the loop.
func (l *Loop) reap() (int, error) {
	n, err := l.poller.Poll(l.batch)
	l.at, l.count = 0, n
	switch packets := l.packets(); {
	case n > 0 || packets != l.received:
		l.received = packets
		l.busy, l.busyIO = true, true
		if l.behind > 0 {
			l.behind = emptyPolls // the empty ones must be in a row
		}
	case l.behind > 0 && err == nil: // an error always comes without completions, so it does not show that there are none
		l.behind--
	}
	if err != nil || l.failing > 0 {
		return n, l.onPollError(err)
	}
	return n, nil
}

// packets is how many packets the poller's rings have received. What callbacks take is no completion, but the turn in which they took it has
// done something: what they sent or acknowledged leaves at its end, and the loop does not count it as idle.
func (l *Loop) packets() (n uint64) {
	for _, r := range l.poller.Rings() {
		n += ring.PacketsOf(r)
	}
	return n
}

// onPollError handles the error of a Poll, or nil for one that succeeded after errors. Most errors concern one socket and could be returned to
// no other call: they are counted, the first one in a row is logged, and the loop goes on. It returns an error, which ends the loop, if the
// poller cannot be used any more, if a callback panicked and the policy is StopLoop, or after too many errors in a row.
func (l *Loop) onPollError(err error) error {
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

// newCallbackPanics returns how many panics in receive callbacks the rings have contained since its last call.
func (l *Loop) newCallbackPanics() uint64 {
	before := l.callbackPanics
	l.callbackPanics = 0
	for _, r := range l.poller.Rings() {
		l.callbackPanics += r.Stats().CallbackPanics
	}
	return l.callbackPanics - before
}

// run calls the handler for the completions of the batch that it has not received yet.
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

// Next returns the completion after the one that is being handled, if it is in the same batch; else nil. It lets a handler see whether more for
// the same connection follows; Handle is called for that completion too. Loop only, inside Handle.
func (l *Loop) Next() *xtreme.Completion {
	if l.doing != inHandler || l.at >= l.count {
		return nil
	}
	return &l.batch[l.at]
}

// catchUp handles the completions that arrived during a long gap, until Polls are empty, so that time-outs which they move or cancel do not
// fire.
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
	l.behind = 0 // timers must fire in the end, however much data keeps arriving
	return nil
}

// submit starts the sends that the turn has prepared. Errors that concern one socket do not end the loop.
func (l *Loop) submit() error {
	if err := l.poller.Flush(); err != nil {
		if errors.Is(err, ring.ErrClosed) || errors.Is(err, ring.ErrOwner) {
			return err
		}
		return l.onPollError(err)
	}
	return nil
}
