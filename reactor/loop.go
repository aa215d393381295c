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

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Loop polls one poller's rings, and runs handlers, timers and posted functions on one goroutine. Any goroutine may call Post, Snapshot,
// Shutdown, BeginShutdown and Name. Everything else may be called before Run by the goroutine that sets the loop up, and during Run by functions
// that the loop calls. From elsewhere these calls return ErrOwner, or panic if they return no error.
type Loop struct {
	poller  *xtreme.Poller
	index   int // in its group
	handler Handler
	config  Config
	log     *slog.Logger
	clock   clock.Source
	self    atomic.Uintptr // the goroutine in Run; 0 before
	began   atomic.Bool    // Run or Close was called

	// the current turn
	now       clock.Time // the clock at its beginning
	batch     []xtreme.Completion
	at, count int        // batch[at:count] is still to be handled
	busy      bool       // something happened in this turn
	busyIO    bool       // something else than timers happened
	received  uint64     // packets of the poller's rings, as reap saw them last
	slept     bool       // the turn before ended in a sleep
	behind    int        // after a long gap: how many empty Polls are missing to show that no data from before is left; else 0
	idle      uint64     // turns in a row without anything but timers
	yields    int        // how many more times other goroutines run in the first empty turn, see yieldsAfterPost
	yielded   bool       // a handler has called Yield since the last empty turn
	lastIO    clock.Time // of the last turn in which something else than timers happened
	failing   int        // Polls in a row that returned an error
	doing     phase

	callbackPanics uint64 // of all rings, when newCallbackPanics counted them last

	timers
	posts    posts
	external externalFDs

	// sleeping
	locked       bool          // the goroutine is locked to its thread
	longestSleep time.Duration // negative: no limit
	waits        []unix.PollFd // reused by waitAll
	limit        unix.Timespec // likewise

	epoch     time.Time // the time of day at clock epochTick
	epochTick clock.Time
	stats     Stats
}

// New makes a loop that polls p, which must not have been polled before, and gives its completions to h. Run closes the poller in the end; Close
// closes a loop that never runs.
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
	if p != nil && len(c.Pin) == 0 && !c.Unpinned { // newLoop refuses a nil poller
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

// newLoop makes a loop without a handler, which New and RunGroup add. Settings that the loop does not use are logged.
func newLoop(p *xtreme.Poller, c Config) (*Loop, error) {
	if p == nil {
		return nil, fmt.Errorf("reactor: New: poller nil: %w", unix.EINVAL)
	}
	given := c
	if err := c.complete(p.Engine().Settings()); err != nil {
		return nil, err
	}
	given.logUnused(p.Engine())
	given.logUnusedBound(p.Engine(), &c)
	if c.Logger == nil {
		c.Logger = p.Engine().Logger()
	}
	l := &Loop{poller: p, config: c, log: conf.LimitRepeats(c.Logger).With("loop", p.Name()), clock: clock.Now,
		batch: make([]xtreme.Completion, c.Batch), longestSleep: -1}
	l.external.fd = -1
	l.posts.wake, l.posts.over = p.Wake, make(chan struct{})
	l.epoch, l.epochTick = time.Now(), l.clock()
	l.now = l.epochTick
	l.timers.init(l)
	return l, nil
}

// Run runs the loop on the calling goroutine until ctx is done or Shutdown is called. It then shuts down in good order, as the package's doc
// describes, closes the poller and returns nil. An error may be a *PanicError, or a *xtreme.HeldError if the program still holds packets. A
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
		err = l.shutDown()
	}
	err = errors.Join(err, l.finish(err))
	ended = true
	return l.fail(err)
}

// errNeverRan is the cause of the end of a loop that Close ended.
var errNeverRan = errors.New("the loop never ran")

// Close ends a loop that never ran: it closes its poller with all sockets, stops watching descriptors and drops posted functions. For a loop
// that runs or has run it returns ErrClosed; Shutdown ends such a loop. Only the goroutine that sets the loop up may call it.
func (l *Loop) Close() error { return l.fail(l.close()) }

// close is Close without the loop's name in its errors.
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

// fail adds the loop's name to an error that a public call returns; nil stays nil.
func (l *Loop) fail(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("reactor: loop %q: %w", l.poller.Name(), err)
}

// threadBound reports whether a ring must always be polled on the same thread, so that Run has to lock its goroutine to one.
func (l *Loop) threadBound() bool {
	for _, r := range l.poller.Rings() {
		if r.Caps().Has(ring.CapThreadBound) {
			return true
		}
	}
	return false
}

// start calls the handler's Start, if it is a Starter.
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

// Shutdown begins an orderly shutdown and waits until the loop has ended and its poller is closed. Errors of the shutdown are returned by
// Run. If ctx ends first, Shutdown returns ctx's error at once, and the loop aborts the sockets that are left and ends without further
// waiting. On the loop itself, and before Run, it does not wait: it is BeginShutdown. Any goroutine.
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

// Name returns the poller's name. Any goroutine.
func (l *Loop) Name() string { return l.poller.Name() }

// Index is the loop's place in its group (RunGroup), from 0; 0 for a loop without one. Any goroutine.
func (l *Loop) Index() int { return l.index }

// Poller returns the poller whose rings the loop polls. It is for making sockets; the program must not poll or close it.
func (l *Loop) Poller() *xtreme.Poller { return l.poller }

// Now returns the time at which the current turn began; the clock is read once in each turn. It is a monotonic time: differences and deadlines
// that are computed from it do not change when the time of day is set. Loop only.
func (l *Loop) Now() time.Time {
	l.checkCaller("Now")
	return l.epoch.Add(l.now.Sub(l.epochTick))
}

// checkCaller panics if the caller is not on the loop's goroutine, where call would corrupt the loop silently. Before Run it also reads the
// clock, because no turn does.
func (l *Loop) checkCaller(call string) {
	switch self := l.self.Load(); {
	case self == sys.Goroutine():
	case self == 0:
		l.now = l.clock()
	default:
		panic(fmt.Sprintf("reactor: loop %q: %s called from another goroutine: use Post", l.poller.Name(), call))
	}
}

// onLoop is checkCaller for calls that return an error.
func (l *Loop) onLoop() error {
	if self := l.self.Load(); self != 0 && self != sys.Goroutine() {
		return ring.ErrOwner
	}
	return nil
}
