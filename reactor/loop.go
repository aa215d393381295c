package reactor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Loop polls one poller's rings and runs everything that belongs to them on one goroutine. Post, Shutdown, Snapshot and
// Name may be called from any goroutine; everything else belongs to the loop: before Run to the goroutine that sets it up, during
// Run to handlers and functions that the loop runs. Calls from elsewhere panic, or return an error where they return
// one.
type Loop struct {
	poller  *xtreme.Poller
	handler Handler
	config  Config
	log     *slog.Logger
	clock   clock.Source
	self    atomic.Uintptr // the goroutine in Run; 0 before
	began   atomic.Bool

	// the turn
	now       clock.Time // read at its beginning
	batch     []xtreme.Completion
	at, count int  // batch[at:count] is still to be handled
	busy      bool // it did something
	busyIO    bool // and that was more than timers
	slept     bool // the last one ended in a sleep
	behind    int  // >0: there was a long gap, and the rings have not been empty so many times since
	idle      uint64
	yields    int        // in the first empty turn of so many busy spells other goroutines run, see yieldsAfterPost
	yielded   bool       // they did in this spell, see Yield
	lastIO    clock.Time // the last turn that did more than timers
	failing   int        // Polls in a row that returned an error
	doing     phase

	callbackPanics uint64 // of all rings, when last looked at

	timers
	posts    posts
	external externalFDs

	// the rest
	locked       bool          // the loop holds its thread
	longestSleep time.Duration // negative: no limit
	waits        []unix.PollFd
	limit        unix.Timespec

	epoch     time.Time // the time of day at clock epochTick
	epochTick clock.Time
	stats     Stats
}

// New makes a loop for a poller that nobody has polled yet. Run closes the poller; a loop that is not to run is closed by
// Close.
func New(p *xtreme.Poller, h Handler, c Config) (*Loop, error) {
	if h == nil {
		return nil, fmt.Errorf("reactor: New: handler nil: %w", unix.EINVAL)
	}
	switch {
	case len(c.Pin) > 1:
		return nil, badArgument("Pin", c.Pin)
	case c.Name != "":
		return nil, fmt.Errorf("reactor: Config.Name %q: for RunGroup only: the poller has a name: %w",
			c.Name, unix.EINVAL)
	case !reflect.ValueOf(c.Poller).IsZero():
		return nil, fmt.Errorf("reactor: Config.Poller: for RunGroup only: the poller is made: %w", unix.EINVAL)
	}
	if p != nil && len(c.Pin) == 0 && !c.Unpinned {
		c.Pin = p.Engine().LoopCPU()
	} else if p != nil && !c.Unpinned {
		p.Engine().SettingUnused("SX_LOOP_CPUS", "a loop has Config.Pin, which comes before it")
	}
	l, err := newLoop(p, c)
	if err != nil {
		return nil, err
	}
	l.handler = h
	return l, nil
}

func newLoop(p *xtreme.Poller, c Config) (*Loop, error) {
	if p == nil {
		return nil, fmt.Errorf("reactor: New: owner nil: %w", unix.EINVAL)
	}
	given := c
	if err := c.complete(p.Engine().Settings()); err != nil {
		return nil, err
	}
	given.sayUnused(p.Engine())
	given.sayOneBound(p.Engine(), &c)
	if c.Logger == nil {
		c.Logger = p.Engine().Logger()
	}
	l := &Loop{poller: p, config: c, log: c.Logger.With("loop", p.Name()), clock: clock.Now,
		batch: make([]xtreme.Completion, c.Batch), longestSleep: -1}
	l.external.fd = -1
	l.posts.wake, l.posts.over = p.Wake, make(chan struct{})
	l.epoch, l.epochTick = time.Now(), l.clock()
	l.now = l.epochTick
	l.timers.init(l)
	return l, nil
}

// Run takes turns until ctx is done or Shutdown is called, then shuts down in good order and closes the poller:
// connections are drained and closed as package documentation describes, buffers return to the pool. It returns nil after that;
// otherwise what went wrong, which may be a *PanicError, or a *xtreme.HeldError when the program still held packets. A
// loop runs once.
func (l *Loop) Run(ctx context.Context) (err error) {
	if ctx == nil {
		return l.fail(fmt.Errorf("Run: context nil: %w", unix.EINVAL))
	}
	if !l.began.CompareAndSwap(false, true) {
		return l.fail(fmt.Errorf("Run: it ran or was closed already: %w", ring.ErrClosed))
	}
	unpin, err := pin(l.config.Pin)
	if err != nil {
		return l.fail(errors.Join(err, l.finish(err)))
	}
	defer unpin()
	l.self.Store(sys.Goroutine())
	l.locked = len(l.config.Pin) > 0 || l.threadBound()
	l.now = l.clock()
	l.lastIO = l.now
	defer context.AfterFunc(ctx, l.BeginShutdown)()

	ended := false
	defer func() {
		if !ended { // a handler called runtime.Goexit, as a failing test does
			_ = l.finish(errors.New("runtime.Goexit"))
		}
	}()
	if err = l.start(); err == nil {
		err = l.turnsUntil(l.posts.stopping)
	}
	if err == nil {
		err = l.wind()
	}
	err = errors.Join(err, l.finish(err))
	ended = true
	return l.fail(err)
}

// errNeverRan is the cause of the end of a loop that Close ended.
var errNeverRan = errors.New("the loop never ran")

// Close ends a loop that never ran: what it watched, its sockets and its poller. What was posted is dropped. A loop that runs
// or ran is ErrClosed: Shutdown ends it. Who sets the loop up, while nobody polls its poller.
func (l *Loop) Close() error { return l.fail(l.close()) }

func (l *Loop) close() error {
	for _, r := range l.poller.Rings() {
		if err := r.Check(); err != nil {
			return fmt.Errorf("close: %w", err)
		}
	}
	if !l.began.CompareAndSwap(false, true) {
		return fmt.Errorf("close: it runs, ran or was closed: %w", ring.ErrClosed)
	}
	l.self.Store(sys.Goroutine())
	return l.finish(errNeverRan)
}

// fail adds the loop's name, once.
func (l *Loop) fail(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("reactor: loop %q: %w", l.poller.Name(), err)
}

func (l *Loop) threadBound() bool {
	for _, r := range l.poller.Rings() {
		if r.Caps().Has(ring.CapThreadBound) {
			return true
		}
	}
	return false
}

func (l *Loop) start() error {
	s, ok := l.handler.(Starter)
	if !ok {
		return nil
	}
	var err error
	if e := l.guarded(inStart, func() { err = s.Start(l) }); e != nil {
		return e
	}
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	return nil
}

// BeginShutdown begins an orderly shutdown, as the end of Run's context does. It returns at once. Any goroutine.
func (l *Loop) BeginShutdown() { l.posts.notice(noticeStop) }

// Shutdown begins an orderly shutdown and waits until the loop has ended, its poller closed; Run returns what went wrong. When ctx ends
// first, the loop waits for nobody any more (the rest of Grace, peers that do not read): it aborts the sockets that are left and ends, and
// Shutdown returns ctx's error at once. Called on the loop itself, which cannot wait for its own end, and before Run has begun, it only
// begins. Any goroutine.
func (l *Loop) Shutdown(ctx context.Context) error {
	if ctx == nil {
		return l.fail(fmt.Errorf("shutdown: context nil: %w", unix.EINVAL))
	}
	l.BeginShutdown()
	if self := l.self.Load(); self == 0 || self == sys.Goroutine() {
		return nil
	}
	select {
	case <-l.posts.over:
		return nil
	case <-ctx.Done():
	}
	l.posts.notice(noticeStop | noticeAbort)
	return l.fail(fmt.Errorf("shutdown: %w", ctx.Err()))
}

// Name is the poller's name. Any goroutine.
func (l *Loop) Name() string { return l.poller.Name() }

// Poller is whose rings the loop polls. It is for making sockets; polling and closing it are the loop's.
func (l *Loop) Poller() *xtreme.Poller { return l.poller }

// Now is the time at which this turn began: one reading of the clock serves all of a turn. It carries the monotonic
// reading, so differences and deadlines computed from it do not jump with the time of day.
func (l *Loop) Now() time.Time {
	l.mine("Now")
	return l.epoch.Add(l.now.Sub(l.epochTick))
}

// mine panics when the caller is not the loop: what follows would corrupt it silently. Before Run it also moves the
// time, which no turn does yet.
func (l *Loop) mine(call string) {
	switch self := l.self.Load(); {
	case self == sys.Goroutine():
	case self == 0:
		l.now = l.clock()
	default:
		panic(fmt.Sprintf("reactor: loop %q: %s called from another goroutine: use Post", l.poller.Name(), call))
	}
}

// onLoop is mine for calls that can return an error.
func (l *Loop) onLoop() error {
	if self := l.self.Load(); self != 0 && self != sys.Goroutine() {
		return ring.ErrOwner
	}
	return nil
}
