package xtreme

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"go.uber.org/atomic"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/cure"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/record"
)

// Engine is one configured runtime: settings, rules, the decision which kind of ring to use, and the pollers made from it. A program usually
// has one. Any goroutine may call its methods.
type Engine struct {
	settings conf.Settings
	nics     *interfaces // shared by the offloaded rings of all pollers
	rules    rulebook
	log      *conf.Log

	mu       sync.Mutex
	kinds    map[conf.RingKind]chosen // decisions of choose, by the kind that was asked for
	reported map[string]bool          // names of settings without effect that were logged
	warned   map[string]bool          // codes of reasons that were logged with their cure
	pollers  []*Poller                // those that are open
	making   []string                 // names of the pollers that NewPoller is making; they keep the engine open
	closed   bool

	made   atomic.Int64 // pollers made so far
	opened atomic.Int64 // sockets made by pollers' calls so far
	loops  atomic.Int64 // processors that LoopCPU handed out so far

	rings ringTable    // of all pollers, for RingByFD
	stats *publication // nil: nothing is published
	feeds []*FeedPublisher

	socketReport *socketReport    // nil without VMA_STATS_FILE
	recorder     *record.Recorder // of the frames of offloaded rings; off unless the settings say otherwise
}

// New checks the settings and makes an engine. It reads the rules file and opens the files for the log and the capture, if the settings name
// them; it opens no ring and no socket, which NewPoller and the pollers' calls do.
func New(s conf.Settings) (*Engine, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("xtreme: %w", err)
	}
	e := &Engine{settings: s, kinds: map[conf.RingKind]chosen{}}
	var err error
	if e.log, err = openLog(&s); err != nil {
		return nil, fmt.Errorf("xtreme: %w", err)
	}
	e.warnOfLogLevel()
	e.logUnused(s.WithoutEffect())
	if s.Logger != nil {
		unused := []string{"VMA_LOG_DETAILS", "VMA_LOG_FILE", "VMA_LOG_COLORS"}
		if !s.LogLevel.Includes(conf.LogInfo) { // at info and above the level has an effect: the settings are printed
			unused = append(unused, "VMA_TRACELEVEL")
		}
		for _, name := range unused {
			e.SettingUnused(name, "the program gave the engine a logger")
		}
	}
	e.nics = newInterfaces(e.log.Logger, &s)
	if err = e.loadRules(); err == nil {
		err = e.openRecorder(&s.Offload)
	}
	if err == nil {
		err = e.openSocketReport()
	}
	if err != nil {
		err = errors.Join(err, e.recorder.Close(), e.log.Close())
		panicIfFatal(err)
		return nil, err
	}
	e.stats = e.publish()
	if r := &s.Offload.Recorder; e.stats == nil && r.MiB > 0 && r.Gap > 0 {
		e.log.Warn("gaps are not recorded: they are found for published statistics alone, and there are none", "setting", fmt.Sprintf("SX_RECORD=%v", r))
	}
	return e, nil
}

// Start decides which kind of ring the engine's pollers use, by probing the kernel. It is optional: the first NewPoller does the same. A
// program calls Start to learn early that the ring it asks for does not work here (the error says why), or to keep the probes out of a later
// NewPoller. Further calls change nothing.
func (e *Engine) Start() error {
	_, err := e.choose(e.settings.Ring)
	return err
}

// Logger returns the engine's log. It writes through Settings.Logger; else it is the one that the settings describe (VMA_LOG_FILE,
// VMA_TRACELEVEL, VMA_LOG_DETAILS); else it writes through slog.Default(). Warnings and errors that are repeated are limited
// (conf.LimitRepeats). Close closes its file.
func (e *Engine) Logger() *slog.Logger { return e.log.Logger }

// Settings returns the settings that the engine was made with.
func (e *Engine) Settings() conf.Settings { return e.settings }

// NewPoller makes a poller: its buffers and its first ring. Any goroutine may make it and set it up; the goroutine that polls it first is its
// owner from then on. name is for logs and errors. Buffers are allocated and touched here, so that receiving causes no page faults
// (PollerConfig.MemoryOnDemand).
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
	e.warnCurable(chosen.reasons, cure.Place{})
	if err := e.beginPoller(name); err != nil {
		return fail(err)
	}
	poller, err := newPoller(e, name, kind, chosen, &c)
	if err != nil {
		e.endPoller(name, nil)
		return fail(err)
	}
	if !c.Auxiliary {
		e.logUnusedBy(chosen, &c)
	}
	e.endPoller(name, poller)
	e.openSharesOf(poller)
	e.made.Inc()
	return poller, nil
}

// beginPoller notes that a poller is being made. Until endPoller Close refuses to end the engine, because a poller that is being made uses its
// statistics file, recorder and log already. It is an error if the engine is closed.
func (e *Engine) beginPoller(name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return fmt.Errorf("engine: %w", ring.ErrClosed)
	}
	e.making = append(e.making, name)
	return nil
}

// endPoller undoes beginPoller, and lists the poller that was made as open; nil: it could not be made.
func (e *Engine) endPoller(name string, made *Poller) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.Index(e.making, name)
	e.making = slices.Delete(e.making, i, i+1)
	if made != nil {
		e.pollers = append(e.pollers, made)
	}
}

// EngineStats are counters of an engine since it was made. They only grow: what is closed again stays counted.
type EngineStats struct {
	Pollers int64 // made by NewPoller
	Sockets int64 // made by the calls of the pollers (ListenTCP, OpenUDP, Adopt …); RingStats.Accepted counts accepted connections
}

// Stats returns the engine's counters.
func (e *Engine) Stats() EngineStats { return EngineStats{e.made.Load(), e.opened.Load()} }

// Pollers lists the pollers that are open, in the order in which they were made.
func (e *Engine) Pollers() []*Poller {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.pollers)
}

// RingByFD finds the open ring whose descriptor (Ring.FD) is fd, among those of all pollers. It takes no lock and does not allocate.
// (VMA: socketxtreme_poll takes such a descriptor.)
func (e *Engine) RingByFD(fd int) (*ring.Ring, bool) {
	r := e.rings.find(fd)
	return r, r != nil
}

// Close ends the engine and closes the files of its log and its capture. Pollers must be closed before, each by its own goroutine: with any
// still open, or being made, Close returns an error that names them, and changes nothing. It may block while captured frames are written
// (SX_CAPTURE).
func (e *Engine) Close() error {
	if err := e.markClosed(); err != nil {
		return err
	}
	e.closeFeeds()
	// Without the lock, because a capture file may be a pipe that is read slowly.
	return errors.Join(e.stats.close(e), e.socketReport.close(), e.recorder.Close(), e.log.Close())
}

// markClosed makes NewPoller fail from now on. It is an error if a poller is open or being made.
func (e *Engine) markClosed() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return fmt.Errorf("xtreme: engine: %w", ring.ErrClosed)
	}
	if len(e.pollers)+len(e.making) > 0 {
		var names []string
		for _, p := range e.pollers {
			names = append(names, p.name)
		}
		names = append(names, e.making...)
		return fmt.Errorf("xtreme: close engine: pollers still open: %q", names)
	}
	e.closed = true
	return nil
}

// forgetPoller takes a poller that was closed off the list of open ones.
func (e *Engine) forgetPoller(p *Poller) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := slices.Index(e.pollers, p); i >= 0 {
		e.pollers = slices.Delete(e.pollers, i, i+1)
	}
}
