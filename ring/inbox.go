package ring

import (
	"slices"
	"sync"
	"sync/atomic"
)

// inbox is what other goroutines leave for the owner: posted work and wake-ups. (Lent buffers return through the pool's own
// return stack; only their wake-up passes here.) While it is empty it costs the owner one atomic load in each Poll.
type inbox struct {
	flags      atomic.Uint32
	wakeDriver func() // makes the sleeping owner wake up
	mu         sync.Mutex
	work       []func()
	running    []func()
	closed     bool
}

const (
	inboxWork     = 1 << iota // work or a wake-up waits
	inboxSleeping             // the owner sleeps or is about to: adding work must wake the owner
	inboxWoken                // the owner was woken: once is enough
	inboxClosed               // nothing is run any more
	inboxRefresh              // see RequestRefresh
)

// waiting reports whether posted work or a wake-up waits for the owner.
func (b *inbox) waiting() bool { return b.flags.Load()&inboxWork != 0 }

// refreshRequested is apart from it: it is no reason not to sleep, and none to poll a ring that is idle. See RequestRefresh.
func (b *inbox) refreshRequested() bool { return b.flags.Load()&inboxRefresh != 0 }

// due is both.
func (b *inbox) due() bool { return b.flags.Load()&(inboxWork|inboxRefresh) != 0 }

// wake makes the owner poll soon: it ends a sleep, or keeps the next from beginning.
func (b *inbox) wake() {
	if old := b.flags.Or(inboxWork | inboxWoken); old&inboxSleeping != 0 && old&inboxWoken == 0 {
		b.wakeDriver()
	}
}

// wakeIfSleeping is wake for an owner that sleeps, and nothing for one that polls: it will see what changed by itself.
func (b *inbox) wakeIfSleeping() {
	if b.flags.Load()&inboxSleeping != 0 {
		b.wake()
	}
}

// prepareSleep announces a sleep, cancelSleep ends it.
func (b *inbox) prepareSleep() {
	b.flags.And(^uint32(inboxWoken))
	b.flags.Or(inboxSleeping)
}

func (b *inbox) cancelSleep() { b.flags.And(^uint32(inboxSleeping)) }

// post adds work for the owner and wakes it. Any goroutine.
func (b *inbox) post(f func()) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return ErrClosed
	}
	b.work = append(b.work, f)
	b.mu.Unlock()
	b.wake()
	return nil
}

// run calls the functions that were posted until now and returns how many. What they post themselves waits for the next Poll, so that Poll ends.
func (b *inbox) run() (n int) {
	b.flags.And(^uint32(inboxWork))
	b.mu.Lock()
	b.work, b.running = b.running[:0], b.work
	b.mu.Unlock()
	defer func() {
		// A function panicked: those behind it wait for the next Poll, if there is one.
		if n < len(b.running) && !b.isClosed() {
			b.mu.Lock()
			b.work = append(slices.Clone(b.running[n:]), b.work...)
			b.mu.Unlock()
			b.wake()
		}
	}()
	for n < len(b.running) && !b.isClosed() {
		f := b.running[n]
		b.running[n] = nil
		n++
		f()
	}
	return n
}

// isClosed reports that the ring was closed, perhaps by the very work that ran last.
func (b *inbox) isClosed() bool { return b.flags.Load()&inboxClosed != 0 }

// close drops what was posted and refuses more.
func (b *inbox) close() {
	b.flags.Or(inboxClosed)
	b.mu.Lock()
	b.closed = true
	b.work = nil
	b.mu.Unlock()
}
