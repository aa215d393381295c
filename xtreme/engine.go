package xtreme

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"

	"go.uber.org/atomic"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
)

// Engine is one configured runtime: settings, the decision which kind of ring to use, and the pollers made from it. Its methods
// may be called from any goroutine.
type Engine struct {
	settings conf.Settings
	nics     *interfaces // of offloaded rings
	rules    rulebook
	log      *slog.Logger
	logEnd   io.Closer // of a log that the settings asked for; else nil

	mu       sync.Mutex
	kinds    map[conf.RingKind]chosen
	reported map[string]bool // settings without effect that the log has, by name and kinds of ring
	pollers  []*Poller
	closed   bool

	made   atomic.Int64 // pollers ever made
	opened atomic.Int64 // sockets ever made by their calls
	loops  atomic.Int64 // processors given to reactors

	rings ringTable
}

// New makes an engine; the settings are checked, nothing is opened yet but the files of log and capture.
func New(s conf.Settings) (*Engine, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("xtreme: %w", err)
	}
	e := &Engine{settings: s, kinds: map[conf.RingKind]chosen{}}
	var err error
	if e.log, e.logEnd, err = openLog(&s); err != nil {
		return nil, fmt.Errorf("xtreme: %w", err)
	}
	e.logUnused(s.WithoutEffect())
	if s.Logger != nil {
		unused := []string{"VMA_LOG_DETAILS", "VMA_LOG_FILE"}
		if !s.LogLevel.Tells(conf.LogInfo) { // a level that tells it has printed the settings
			unused = append(unused, "VMA_TRACELEVEL")
		}
		for _, name := range unused {
			e.SettingUnused(name, "the program gave the engine a logger")
		}
	}
	e.nics = newInterfaces(e.log, &s)
	if err = e.loadRules(); err == nil {
		err = e.openCapture(&s.Offload)
	}
	if err != nil {
		err = errors.Join(err, e.endLog())
		dieOf(err)
		return nil, err
	}
	return e, nil
}

func (e *Engine) endLog() error {
	if e.logEnd == nil {
		return nil
	}
	return e.logEnd.Close()
}

// Start decides on the kind of ring and touches what is otherwise touched at first use, so that nothing of it happens on the
// path. Poller does it if it was not done; calling it brings errors to light early.
func (e *Engine) Start() error {
	clock.Now()
	_, err := e.choose(e.settings.Ring)
	return err
}

// Logger is the engine's log: that of Settings.Logger, or the one that the settings describe (VMA_LOG_FILE, VMA_TRACELEVEL,
// VMA_LOG_DETAILS), or slog.Default(). Close closes its file. Any goroutine.
func (e *Engine) Logger() *slog.Logger { return e.log }

// Settings is what the engine was made with.
func (e *Engine) Settings() conf.Settings { return e.settings }

// NewPoller makes the rings that one goroutine will poll: buffers, allocated and touched, and a first ring. The goroutine that
// polls it first is its owner from then on.
func (e *Engine) NewPoller(name string, c PollerConfig) (*Poller, error) {
	kind := e.settings.Ring
	if c.RingKind != "" {
		kind = c.RingKind
	}
	fail := func(err error) (*Poller, error) { return nil, fmt.Errorf("xtreme: poller %q: %w", name, err) }
	if err := c.validate(); err != nil {
		return fail(err)
	}
	chosen, err := e.choose(kind)
	if err != nil {
		return nil, err
	}
	poller, err := newPoller(e, name, kind, chosen, &c)
	if err != nil {
		return fail(err)
	}
	if !c.Auxiliary {
		e.logUnusedBy(chosen, &c)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errors.Join(fmt.Errorf("xtreme: poller %q: engine: %w", name, ring.ErrClosed), poller.Close())
	}
	e.pollers = append(e.pollers, poller)
	e.made.Inc()
	return poller, nil
}

// EngineStats counts what an engine ever made.
type EngineStats struct {
	Pollers int64
	Sockets int64 // by the pollers' calls; accepted connections are in ring.RingStats
}

// Stats returns the engine's counters.
func (e *Engine) Stats() EngineStats { return EngineStats{e.made.Load(), e.opened.Load()} }

// Pollers lists the pollers that are open.
func (e *Engine) Pollers() []*Poller {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.pollers)
}

// RingByFD finds the ring whose FD is fd. It takes no lock and does not allocate. (VMA: socketxtreme_poll takes such a descriptor.)
func (e *Engine) RingByFD(fd int) (*ring.Ring, bool) {
	r := e.rings.find(fd)
	return r, r != nil
}

// Close ends the engine. Pollers belong to their goroutines and are closed there: with any still open it is an error that names
// them, and nothing is closed. Writing what is captured (SX_CAPTURE) may take it a moment.
func (e *Engine) Close() error {
	if err := e.shut(); err != nil {
		return err
	}
	return errors.Join(e.endCapture(), e.endLog()) // without the lock: what is captured may wait for a reader
}

func (e *Engine) shut() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return fmt.Errorf("xtreme: engine: %w", ring.ErrClosed)
	}
	if len(e.pollers) > 0 {
		names := make([]string, len(e.pollers))
		for i, p := range e.pollers {
			names[i] = p.name
		}
		return fmt.Errorf("xtreme: close engine: pollers still open: %q", names)
	}
	e.closed = true
	return nil
}

func (e *Engine) forget(p *Poller) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := slices.Index(e.pollers, p); i >= 0 {
		e.pollers = slices.Delete(e.pollers, i, i+1)
	}
}
