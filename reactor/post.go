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

// posts is what other goroutines leave for the loop. A turn pays one atomic load for it. It is apart from the rings'
// inbox so that posted functions have a budget and so that one that panics costs nothing else.
type posts struct {
	flags atomic.Uint32
	wake  func() // ends the loop's sleep; only with mu held and before closed, so that it cannot meet the rings' closing

	mu     sync.Mutex
	work   []func()
	asked  []chan Stats
	closed bool          // nothing is accepted any more
	ended  bool          // final is final
	over   chan struct{} // closed when ended is set
	final  Stats

	running []func() // the loop's
	next    int      // running[next:] is still to be run
}

const (
	noticeWork  = 1 << iota // there is work
	noticeAsked             // somebody wants the statistics
	noticeStop              // shut down in good order
	noticeAbort             // without waiting
	noticeElse              // work came from another goroutine
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
		p.notify(noticeWork | noticeElse)
	} else {
		p.notify(noticeWork)
	}
	return nil
}

// Snapshot is Stats for any goroutine: the loop makes a copy in its next turn. After the end of Run it is the final
// state. It waits until the loop runs or ctx is done.
func (l *Loop) Snapshot(ctx context.Context) (Stats, error) {
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

// notice sets a flag and wakes the loop.
func (p *posts) notice(flag uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notify(flag)
}

func (p *posts) notify(flag uint32) {
	p.flags.Or(flag)
	if !p.closed {
		p.wake()
	}
}

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

func (p *posts) stopping() bool { return p.flags.Load()&noticeStop != 0 }
func (p *posts) aborting() bool { return p.flags.Load()&noticeAbort != 0 }
func (p *posts) left() bool     { return p.next < len(p.running) }
func (p *posts) waiting() bool  { return p.flags.Load()&(noticeWork|noticeAsked) != 0 || p.left() }

// take makes what was posted until now the work to run. What that work posts itself comes in a later turn.
func (p *posts) take() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flags.And(^uint32(noticeWork))
	p.work, p.running = p.running[:0], p.work
	p.next = 0
}

// answer gives the statistics to those who asked.
func (p *posts) answer(s Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reply(s)
}

func (p *posts) reply(s Stats) {
	p.flags.And(^uint32(noticeAsked))
	for _, answer := range p.asked {
		answer <- s // has room for one, and one is all it gets
	}
	p.asked = nil
}

// runPosted runs posted functions, as many as the budget allows. Giving out statistics is not work: a loop that is
// being watched must not spin for it.
func (l *Loop) runPosted() {
	p := &l.posts
	if p.flags.Load()&noticeAsked != 0 {
		p.answer(l.Stats())
	}
	if !p.left() {
		if p.flags.Load()&noticeWork == 0 {
			return
		}
		p.take()
	}
	if p.flags.Load()&noticeElse != 0 {
		p.flags.And(^uint32(noticeElse))
		l.yields = yieldsAfterPost
	}
	l.busy, l.busyIO = true, true
	l.doing = inPosted
	for budget := l.config.PostBudget; budget > 0 && p.left(); budget-- {
		f := p.running[p.next]
		p.running[p.next] = nil
		p.next++
		l.stats.Posted++
		f()
	}
	l.doing = inRing
}

// close ends posting; what was accepted before can still be taken.
func (p *posts) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

// drop forgets the work that is left and reports how much it was.
func (p *posts) drop() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.running) - p.next + len(p.work)
	p.work, p.running, p.next = nil, nil, 0
	return uint64(n)
}

// end publishes the final statistics.
func (p *posts) end(s Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		close(p.over)
	}
	p.ended, p.final = true, s
	p.reply(s)
}
