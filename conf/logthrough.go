package conf

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// byHandler is the level of a Log that leaves it to another logger which lines are written. It lies below all others.
const byHandler slog.Level = math.MinInt32

// LogThrough returns a log that writes through a logger of the program's. Until SetLevel is called that one decides which lines are written.
// From then on the level decides, also where the logger's handler would refuse it: package slog's own handlers write such lines nevertheless; a
// line that another package's handler refuses goes to standard error in VMA's form. SetDetails adds attributes: the thread tid, the process
// pid, and ms, the milliseconds since the log was made. Warnings and errors that are repeated are limited (LimitRepeats). The caller closes
// the log, which does not close the logger.
func (s *Settings) LogThrough(to *slog.Logger) *Log {
	l := &Log{start: time.Now(), through: to, to: os.Stderr, colored: s.LogColors && isTerminal(os.Stderr)}
	l.level.Set(byHandler)
	l.begin(&throughHandler{log: l, next: to.Handler(), own: &handler{log: l}, takesAll: takesAllLevels(to.Handler())})
	return l
}

// Through is the logger that the log writes through, or nil if it writes lines of its own.
func (l *Log) Through() *slog.Logger { return l.through }

// takesAllLevels reports whether a handler's Handle writes also those records that its Enabled refuses.
func takesAllLevels(h slog.Handler) bool {
	switch h.(type) {
	case *slog.TextHandler, *slog.JSONHandler:
		return true
	}
	return fmt.Sprintf("%T", h) == "*slog.defaultHandler" // that of slog.Default, unless the program has set another
}

// throughHandler is the slog.Handler of a Log that writes through another logger.
type throughHandler struct {
	log      *Log
	next     slog.Handler
	own      slog.Handler // for lines that next refuses
	takesAll bool         // it refuses none
}

// Enabled is slog's.
func (h *throughHandler) Enabled(ctx context.Context, level slog.Level) bool {
	if least := h.log.level.Level(); least != byHandler {
		return level >= least
	}
	return h.next.Enabled(ctx, level)
}

// Handle is slog's.
func (h *throughHandler) Handle(ctx context.Context, r slog.Record) error {
	if h.log.level.Level() != byHandler && !h.takesAll && !h.next.Enabled(ctx, r.Level) {
		return h.own.Handle(ctx, r)
	}
	if details := h.log.detailsNow(); len(details) > 0 {
		r = r.Clone()
		r.AddAttrs(details...)
	}
	return h.next.Handle(ctx, r)
}

// detailsNow are the details that VMA_LOG_DETAILS asks for, as attributes.
func (l *Log) detailsNow() (list []slog.Attr) {
	details := l.details.Load()
	if details >= 1 {
		list = append(list, slog.Int("tid", unix.Gettid()))
	}
	if details >= 2 {
		list = append(list, slog.Int("pid", os.Getpid()))
	}
	if details >= 3 {
		list = append(list, slog.Float64("ms", float64(time.Since(l.start).Microseconds())/1000))
	}
	return list
}

// WithAttrs is slog's.
func (h *throughHandler) WithAttrs(list []slog.Attr) slog.Handler {
	c := *h
	c.next, c.own = h.next.WithAttrs(list), h.own.WithAttrs(list)
	return &c
}

// WithGroup is slog's.
func (h *throughHandler) WithGroup(name string) slog.Handler {
	c := *h
	c.next, c.own = h.next.WithGroup(name), h.own.WithGroup(name)
	return &c
}
