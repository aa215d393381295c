package conf

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// A warning or error that is repeated does not fill the log: in each second the first lines with the same message and level are written, and
// then one line says how many more there were:
//
//	SX WARN: ring error error="..."
//	SX WARN: ring error: 1312 more like it
//
// Attributes do not count: a message is what the code says, attributes are what it says it of. Lines below warning are not limited: those of
// info tell decisions, and debug is for those who want all of it.
const (
	limitWindow = time.Second
	limitLines  = 10
)

// limitMessages is of how many messages a window counts the lines. In a second with more of them the others are written without a limit.
const limitMessages = 1024

// LimitRepeats returns a logger that writes through l, but of a warning or error with the same message only the first ten lines in a second,
// and then how many more there were. A logger that does so already is returned as it is.
func LimitRepeats(l *slog.Logger) *slog.Logger {
	if _, is := l.Handler().(*limitHandler); is {
		return l
	}
	return slog.New(limit(l.Handler()))
}

// withoutLimit is the context of lines that are not limited.
var withoutLimit = context.WithValue(context.Background(), limitKey{}, true)

type limitKey struct{}

// limitHandler is a slog.Handler that limits what is repeated. Those that WithAttrs and WithGroup make of it share its limiter.
type limitHandler struct {
	slog.Handler
	limiter *limiter
}

func limit(h slog.Handler) *limitHandler {
	return &limitHandler{h, &limiter{to: h, lines: map[limitedLine]int{}}}
}

// Handle is slog's.
func (h *limitHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn && ctx.Value(limitKey{}) == nil && !h.limiter.allows(limitedLine{r.Level, r.Message}) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs is slog's.
func (h *limitHandler) WithAttrs(list []slog.Attr) slog.Handler {
	return &limitHandler{h.Handler.WithAttrs(list), h.limiter}
}

// WithGroup is slog's.
func (h *limitHandler) WithGroup(name string) slog.Handler {
	return &limitHandler{h.Handler.WithGroup(name), h.limiter}
}

// limiter counts the lines of a window of time. A window begins with a line, and ends with the first line after limitWindow, or, if lines were
// left out, by a timer.
type limiter struct {
	to slog.Handler // gets the lines that say how many were left out

	mu    sync.Mutex
	begin time.Time
	lines map[limitedLine]int
	timer *time.Timer // ends the window; nil: no line was left out in it
}

// limitedLine is what repeated lines have in common.
type limitedLine struct {
	level   slog.Level
	message string
}

// allows reports whether a line is written, and counts it.
func (l *limiter) allows(line limitedLine) bool {
	l.mu.Lock()
	now := time.Now()
	var ended map[limitedLine]int
	if now.Sub(l.begin) >= limitWindow {
		ended = l.takeWindow()
		l.begin = now
	}
	n, known := l.lines[line]
	if known || len(l.lines) < limitMessages {
		n++
		l.lines[line] = n
	}
	if n == limitLines+1 && l.timer == nil {
		begin := l.begin
		l.timer = time.AfterFunc(begin.Add(limitWindow).Sub(now), func() { l.endWindowOf(begin) })
	}
	l.mu.Unlock()
	l.tell(ended) // without the lock, because the handler may be the program's
	return n <= limitLines
}

// takeWindow ends the window, and returns what was counted in it. With the lock.
func (l *limiter) takeWindow() map[limitedLine]int {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	ended := l.lines
	l.begin, l.lines = time.Time{}, map[limitedLine]int{}
	return ended
}

// endWindow ends the window that is under way, if there is one.
func (l *limiter) endWindow() {
	l.mu.Lock()
	ended := l.takeWindow()
	l.mu.Unlock()
	l.tell(ended)
}

// endWindowOf is endWindow for the window that began at a time. A timer that could not be stopped in time does not end the next one.
func (l *limiter) endWindowOf(begin time.Time) {
	l.mu.Lock()
	var ended map[limitedLine]int
	if l.begin.Equal(begin) {
		ended = l.takeWindow()
	}
	l.mu.Unlock()
	l.tell(ended)
}

// tell writes how many lines were left out in a window that has ended.
func (l *limiter) tell(ended map[limitedLine]int) {
	for line, n := range ended {
		if n > limitLines && l.to.Enabled(context.Background(), line.level) {
			r := slog.NewRecord(time.Now(), line.level, fmt.Sprintf("%s: %d more like it", line.message, n-limitLines), 0)
			_ = l.to.Handle(context.Background(), r) // as package slog does
		}
	}
}
