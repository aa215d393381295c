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

// Engine is one configured runtime: settings, the decision which kind of ring to use, and the owners made from it. Its methods
// may be called from any goroutine.
type Engine struct {
	settings conf.Settings
	nics     *interfaces // of offloaded rings
	book     rulebook
	log      *slog.Logger
	logEnd   io.Closer // of a log that the settings asked for; else nil

	mu     sync.Mutex
	kinds  map[conf.RingKind]chosen
	said   map[string]bool // settings without effect that the log has, by name and kinds of ring
	owners []*Owner
	closed bool

	made   atomic.Int64 // owners ever made
	opened atomic.Int64 // sockets ever made by their calls
	loops  atomic.Int64 // processors given to reactors

	rings ringTable
}

// New makes an engine; the settings are checked, nothing is opened yet but the files of log and capture. The options are those that say so,
// such as Logger.
func New(s conf.Settings, opt ...Option) (*Engine, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("xtreme: %w", err)
	}
	c, err := collect("New", forEngine, opt)
	if err != nil {
		return nil, err
	}
	e := &Engine{settings: s, kinds: map[conf.RingKind]chosen{}}
	if e.log, e.logEnd, err = openLog(&s, c.logger); err != nil {
		return nil, fmt.Errorf("xtreme: %w", err)
	}
	e.sayUnused(s.WithoutEffect())
	if c.logger != nil {
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
// path. Owner does it if it was not done; calling it brings errors to light early.
func (e *Engine) Start() error {
	clock.Now()
	_, err := e.choose(e.settings.Ring)
	return err
}

// Logger is the engine's log: that of the option Logger, or the one that the settings describe (VMA_LOG_FILE, VMA_TRACELEVEL,
// VMA_LOG_DETAILS), or slog.Default(). Close closes its file. Any goroutine.
func (e *Engine) Logger() *slog.Logger { return e.log }

// Settings is what the engine was made with.
func (e *Engine) Settings() conf.Settings { return e.settings }

// Owner makes the rings that one goroutine will poll: buffers, allocated and touched, and a first ring. The goroutine that
// polls the owner first is its owner from then on.
func (e *Engine) Owner(name string, opt ...Option) (*Owner, error) {
	o, err := collect("Owner", forOwner, opt)
	if err != nil {
		return nil, err
	}
	kind := e.settings.Ring
	if o.kind != "" {
		kind = o.kind
	}
	c, err := e.choose(kind)
	if err != nil {
		return nil, err
	}
	owner, err := newOwner(e, name, kind, c, o)
	if err != nil {
		return nil, fmt.Errorf("xtreme: owner %q: %w", name, err)
	}
	if !o.auxiliary {
		e.sayUnusedBy(c, o)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errors.Join(fmt.Errorf("xtreme: owner %q: engine: %w", name, ring.ErrClosed), owner.Close())
	}
	e.owners = append(e.owners, owner)
	e.made.Inc()
	return owner, nil
}

// EngineStats counts what an engine ever made.
type EngineStats struct {
	Owners  int64
	Sockets int64 // by the owners' calls; accepted connections are in ring.Stats
}

// Stats returns the engine's counters.
func (e *Engine) Stats() EngineStats { return EngineStats{e.made.Load(), e.opened.Load()} }

// Owners lists the owners that are open.
func (e *Engine) Owners() []*Owner {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.owners)
}

// RingByFD finds the ring whose FD is fd. It takes no lock and does not allocate. (VMA: socketxtreme_poll takes such a descriptor.)
func (e *Engine) RingByFD(fd int) (*ring.Ring, bool) {
	r := e.rings.find(fd)
	return r, r != nil
}

// Close ends the engine. Owners belong to their goroutines and are closed there: with any still open it is an error that names
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
	if len(e.owners) > 0 {
		names := make([]string, len(e.owners))
		for i, o := range e.owners {
			names[i] = o.name
		}
		return fmt.Errorf("xtreme: close engine: owners still open: %q", names)
	}
	e.closed = true
	return nil
}

func (e *Engine) forget(o *Owner) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := slices.Index(e.owners, o); i >= 0 {
		e.owners = slices.Delete(e.owners, i, i+1)
	}
}
