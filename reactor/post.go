package reactor

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// posts has the requests of other goroutines to the loop: posted functions, requests for statistics, and shutdown. A turn without any costs one
// atomic load. Rings have such a queue too (Poller.Post); the loop has its own, so that posted functions have a budget and a panic in one is
// contained.
type posts struct {
	flags atomic.Uint32 // the notices below
	wake  func()        // ends the loop's sleep; called with mu held and only before closed is set, so never while the rings are closed

	mu     sync.Mutex
	work   []func()      // posted and not yet taken by the loop
	asked  []chan Stats  // one for each Snapshot that waits for its answer
	closed bool          // posting is refused
	ended  bool          // the loop has ended, and final has its statistics
	over   chan struct{} // closed when ended is set
	final  Stats

	// used by the loop alone
	running []func() // functions that the loop has taken
	next    int      // running[next:] is still to be run
}

const (
	noticeWork      = 1 << iota // work is not empty
	noticeAsked                 // asked is not empty
	noticeStop                  // shut down in good order
	noticeAbort                 // shut down without waiting
	noticeElsewhere             // a function was posted by another goroutine than the loop's
)

// Post runs f on the loop in one of the next turns, after those posted before it, and wakes the loop for that.
// Everything that was accepted is run, during a shutdown too. After the end of Run it returns ring.ErrClosed. Any
// goroutine; it never blocks.
func (l *Loop) Post(f func()) error {
	if f == nil {
		return l.fail(fmt.Errorf("post: function nil: %w", unix.EINVAL))
	}
	p := &l.posts
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return l.fail(fmt.Errorf("post: %w", ring.ErrClosed))
	}
	p.work = append(p.work, f)
	if l.self.Load() != sys.Goroutine() {
		p.notify(noticeWork | noticeElsewhere)
	} else {
		p.notify(noticeWork)
	}
	return nil
}

// Snapshot returns the loop's statistics to any goroutine: the loop copies them in its next turn. After the end of Run they are the final ones.
// Before Run it blocks until the loop runs or ctx is done.
func (l *Loop) Snapshot(ctx context.Context) (Stats, error) {
	if ctx == nil {
		return Stats{}, l.fail(fmt.Errorf("snapshot: context nil: %w", unix.EINVAL))
	}
	if l.self.Load() == sys.Goroutine() {
		return l.Stats(), nil
	}
	answer := make(chan Stats, 1)
	l.posts.ask(answer)
	select {
	case s := <-answer:
		return s, nil
	case <-ctx.Done():
		return Stats{}, l.fail(fmt.Errorf("snapshot: %w", ctx.Err()))
	}
}

// notice sets flags and wakes the loop. Any goroutine.
func (p *posts) notice(flags uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notify(flags)
}

// notify is notice for a caller that holds mu.
func (p *posts) notify(flag uint32) {
	p.flags.Or(flag)
	if !p.closed {
		p.wake()
	}
}

// ask asks the loop to send its statistics to answer, which has room for one. After the loop's end the final ones are sent at once.
func (p *posts) ask(answer chan Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		answer <- p.final
		return
	}
	p.asked = append(p.asked, answer)
	p.notify(noticeAsked)
}

// stopping reports whether a shutdown was asked for, in good order or without waiting.
func (p *posts) stopping() bool { return p.flags.Load()&noticeStop != 0 }

// aborting reports whether the shutdown must not wait any more.
func (p *posts) aborting() bool { return p.flags.Load()&noticeAbort != 0 }

// hasTaken reports whether functions that the loop has taken are still to be run, because the budget of a turn was used up or one panicked.
// Loop only.
func (p *posts) hasTaken() bool { return p.next < len(p.running) }

// waiting reports whether there is something for runPosted. Loop only.
func (p *posts) waiting() bool { return p.flags.Load()&(noticeWork|noticeAsked) != 0 || p.hasTaken() }

// take moves the functions posted so far to running. Functions that they post themselves are run in a later turn.
func (p *posts) take() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flags.And(^uint32(noticeWork))
	p.work, p.running = p.running[:0], p.work
	p.next = 0
}

// answer sends the statistics to the callers of Snapshot that wait.
func (p *posts) answer(s Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reply(s)
}

// reply is answer for a caller that holds mu.
func (p *posts) reply(s Stats) {
	p.flags.And(^uint32(noticeAsked))
	for _, answer := range p.asked {
		answer <- s // does not block: the channel has room for the one value that it ever gets
	}
	p.asked = nil
}

// runPosted runs posted functions, as many as the budget allows, and answers Snapshot. Only functions make the turn busy: a loop that is
// asked for statistics regularly must not spin because of that.
func (l *Loop) runPosted() {
	p := &l.posts
	if p.flags.Load()&noticeAsked != 0 {
		p.answer(l.Stats())
	}
	if !p.hasTaken() {
		if p.flags.Load()&noticeWork == 0 {
			return
		}
		p.take()
	}
	if p.flags.Load()&noticeElsewhere != 0 {
		p.flags.And(^uint32(noticeElsewhere))
		l.yields = yieldsAfterPost
	}
	l.busy, l.busyIO = true, true
	l.doing = inPosted
	l.poller.MarkWork(ring.WorkPosted)
	for budget := l.config.PostBudget; budget > 0 && p.hasTaken(); budget-- {
		f := p.running[p.next]
		p.running[p.next] = nil
		p.next++
		l.stats.Posted++
		f()
	}
	l.poller.MarkWork(ring.WorkUnknown)
	l.doing = inRing
}

// close makes Post return ErrClosed from now on. Functions that were posted before can still be taken.
func (p *posts) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

// drop forgets the functions that have not run and returns how many there were.
func (p *posts) drop() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.running) - p.next + len(p.work)
	p.work, p.running, p.next = nil, nil, 0
	return uint64(n)
}

// end publishes the final statistics, and ends the waiting of Shutdown and Snapshot.
func (p *posts) end(s Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		close(p.over)
	}
	p.ended, p.final = true, s
	p.reply(s)
}
