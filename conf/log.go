package conf

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// LogLevel says which lines are logged, by VMA's names.
type LogLevel string

// The levels, the quietest first.
const (
	LogNone    LogLevel = "none"
	LogPanic   LogLevel = "panic"
	LogError   LogLevel = "error"
	LogWarn    LogLevel = "warn"
	LogInfo    LogLevel = "info"
	LogDetails LogLevel = "details"
	LogDebug   LogLevel = "debug"
	LogFine    LogLevel = "fine"
	LogFiner   LogLevel = "finer"
	LogAll     LogLevel = "all"
)

var logLevels = []LogLevel{LogNone, LogPanic, LogError, LogWarn, LogInfo, LogDetails, LogDebug, LogFine, LogFiner, LogAll}

// slogLevels are the lowest levels of package slog that are written at each LogLevel.
var slogLevels = map[LogLevel]slog.Level{LogNone: 1 << 20, LogPanic: slog.LevelError + 4, LogError: slog.LevelError,
	LogWarn: slog.LevelWarn,
	LogInfo: slog.LevelInfo, LogDetails: slog.LevelDebug + 2, LogDebug: slog.LevelDebug, LogFine: slog.LevelDebug - 4,
	LogFiner: slog.LevelDebug - 8, LogAll: slog.LevelDebug - 8}

// logWords are other ways to write the levels. The numbers are VMA's: they leave details out.
var logWords = map[string]LogLevel{"0": LogPanic, "1": LogError, "2": LogWarn, "3": LogInfo, "4": LogDebug, "5": LogFine, "6": LogFiner,
	"warning": LogWarn, "warnings": LogWarn, "information": LogInfo, "func": LogFine, "function": LogFine, "funcall": LogFiner,
	"func+": LogFiner, "func_all": LogFiner, "func-all": LogFiner}

// parseLogSetting is ParseLogLevel that accepts the empty text, which means that no level is given.
func parseLogSetting(text string) (LogLevel, error) {
	if text == "" {
		return "", nil
	}
	return ParseLogLevel(text)
}

// ParseLogLevel reads a level by its name, another of VMA's words for it, or VMA's number, in upper or lower case. (libvma, vlogger.cpp)
func ParseLogLevel(text string) (LogLevel, error) {
	lower := strings.ToLower(text)
	if slices.Contains(logLevels, LogLevel(lower)) {
		return LogLevel(lower), nil
	}
	if l, ok := logWords[lower]; ok {
		return l, nil
	}
	return "", fmt.Errorf("want none, panic, error, warn, info, details, debug, fine, finer, all, or 0 to 6")
}

// Includes reports whether a log of level l has lines of level other. The empty level has none.
func (l LogLevel) Includes(other LogLevel) bool {
	return l != "" && l != LogNone && slogLevels[other] >= slogLevels[l]
}

// OwnLog reports whether the settings ask for a log in VMA's form: whether any of the log's settings is given.
func (s *Settings) OwnLog() bool { return s.LogLevel != "" || s.LogFile != "" || s.LogDetails != 0 }

// OpenLog opens the log that the settings describe: LogFile, which is created if needed and appended to, or standard error. Lines have the
// form of VMA's, and its colours where they go to a terminal and LogColors is set. Without a level it is info. Warnings and errors that are
// repeated are limited (LimitRepeats). The caller closes the log.
func (s *Settings) OpenLog() (*Log, error) {
	l := &Log{start: time.Now()}
	l.level.Set(slogLevels[s.LogLevel])
	l.details.Store(int32(s.LogDetails))
	to := os.Stderr
	if s.LogFile != "" {
		// O_NOCTTY: a terminal does not become the one that controls the process.
		f, err := os.OpenFile(OfProcess(s.LogFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY|unix.O_NOCTTY, 0o644)
		if err != nil {
			return nil, fmt.Errorf("conf: log file: %w", err)
		}
		to, l.file = f, f
	}
	l.to, l.colored = to, s.LogColors && isTerminal(to)
	l.begin(&handler{log: l})
	return l, nil
}

// begin makes the log's Logger, with the handler of its lines.
func (l *Log) begin(h slog.Handler) {
	limited := limit(h)
	l.limiter, l.Logger = limited.limiter, slog.New(limited)
}

// OfProcess replaces the first %d in a file's name by the number of the process, as VMA does.
func OfProcess(name string) string { return strings.Replace(name, "%d", strconv.Itoa(os.Getpid()), 1) }

// Log is a log in VMA's form, or one that writes through another logger (LogThrough). Any goroutine.
type Log struct {
	*slog.Logger
	level   slog.LevelVar
	details atomic.Int32
	start   time.Time
	file    *os.File
	colored bool
	limiter *limiter
	through *slog.Logger // nil: the log writes lines of its own

	mu sync.Mutex
	to io.Writer
}

// Close writes how many repeated lines were left out last, and closes the log's file, if it has one.
func (l *Log) Close() error {
	l.limiter.endWindow()
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// SetLevel changes which lines are logged. Any goroutine.
func (l *Log) SetLevel(level LogLevel) { l.level.Set(slogLevels[level]) }

// SetDetails changes what lines begin with, 0 to 3. Any goroutine.
func (l *Log) SetDetails(n int) error {
	if n < 0 || n > 3 {
		return fmt.Errorf("conf: log details %d: want 0 to 3", n)
	}
	l.details.Store(int32(n))
	return nil
}

// LogState is level and details of a log.
type LogState struct {
	level   slog.Level
	details int32
}

// State is the log's level and details as they are now. Any goroutine.
func (l *Log) State() LogState { return LogState{l.level.Level(), l.details.Load()} }

// Restore makes level and details those of a State. Any goroutine.
func (l *Log) Restore(s LogState) {
	l.level.Set(s.level)
	l.details.Store(s.details)
}

// LogAt writes a line that was asked for to a log at a level, however often it is repeated.
func LogAt(log *slog.Logger, level LogLevel, line string) {
	log.Log(withoutLimit, slogLevels[level], line)
}

// head returns the beginning of a line of a level: time, process and thread as far as VMA_LOG_DETAILS asks for them, and the level.
func (l *Log) head(level slog.Level) string {
	var b strings.Builder
	details := l.details.Load()
	if details >= 3 {
		fmt.Fprintf(&b, " Time: %.3f", float64(time.Since(l.start))/float64(time.Millisecond))
	}
	if details >= 2 {
		fmt.Fprintf(&b, " Pid: %5d", os.Getpid())
	}
	if details >= 1 {
		fmt.Fprintf(&b, " Tid: %5d", unix.Gettid())
	}
	name := LogFiner
	for _, n := range logLevels[1:] {
		if slogLevels[n] <= level {
			name = n
			break
		}
	}
	fmt.Fprintf(&b, " SX %s: ", strings.ToUpper(string(name)))
	return b.String()
}

// handler is the slog.Handler of a Log: it writes each record as one line.
type handler struct {
	log    *Log
	prefix string // the names of the groups, before the names of attributes
	fixed  string // the attributes of WithAttrs, as they are written
}

// Enabled is slog's.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.log.level.Level()
}

// Handle is slog's.
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	var b bytes.Buffer
	color := h.log.colorOf(r.Level)
	b.WriteString(color + h.log.head(r.Level) + r.Message + h.fixed)
	r.Attrs(func(a slog.Attr) bool {
		b.WriteString(h.attribute(a))
		return true
	})
	if color != "" {
		b.WriteString(colorEnd)
	}
	b.WriteByte('\n')
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	_, err := h.log.to.Write(b.Bytes())
	return err
}

// attribute formats an attribute as " name=value", with quotation marks around the value where they are needed.
func (h *handler) attribute(a slog.Attr) string {
	v := a.Value.Resolve().String()
	if v == "" || strings.ContainsAny(v, " \"\n\t=") {
		v = strconv.Quote(v)
	}
	return " " + h.prefix + a.Key + "=" + v
}

// WithAttrs is slog's.
func (h *handler) WithAttrs(list []slog.Attr) slog.Handler {
	c := *h
	for _, a := range list {
		c.fixed += h.attribute(a)
	}
	return &c
}

// WithGroup is slog's.
func (h *handler) WithGroup(name string) slog.Handler {
	c := *h
	c.prefix += name + "."
	return &c
}
