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

// LogLevel is how much the log tells, by VMA's names.
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

// slogLevels are the least levels of package slog that are written.
var slogLevels = map[LogLevel]slog.Level{LogNone: 1 << 20, LogPanic: slog.LevelError + 4, LogError: slog.LevelError,
	LogWarn: slog.LevelWarn,
	LogInfo: slog.LevelInfo, LogDetails: slog.LevelDebug + 2, LogDebug: slog.LevelDebug, LogFine: slog.LevelDebug - 4,
	LogFiner: slog.LevelDebug - 8, LogAll: slog.LevelDebug - 8}

// logWords are other ways to write the levels. The numbers are VMA's: they leave details out.
var logWords = map[string]LogLevel{"0": LogPanic, "1": LogError, "2": LogWarn, "3": LogInfo, "4": LogDebug, "5": LogFine, "6": LogFiner,
	"warning": LogWarn, "warnings": LogWarn, "information": LogInfo, "func": LogFine, "function": LogFine, "funcall": LogFiner,
	"func+": LogFiner, "func_all": LogFiner, "func-all": LogFiner}

// parseLogSetting is ParseLogLevel, where nothing is no level.
func parseLogSetting(text string) (LogLevel, error) {
	if text == "" {
		return "", nil
	}
	return ParseLogLevel(text)
}

// ParseLogLevel reads a level, in any case. (libvma, vlogger.cpp)
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

// Tells reports whether a log of level l has lines of another one; without a level it has none.
func (l LogLevel) Includes(other LogLevel) bool {
	return l != "" && l != LogNone && slogLevels[other] >= slogLevels[l]
}

// OwnLog reports whether the settings ask for a log of their own, in VMA's form.
func (s *Settings) OwnLog() bool { return s.LogLevel != "" || s.LogFile != "" || s.LogDetails != 0 }

// OpenLog opens the log that the settings describe: their file, made if it is not there and appended to, or standard error. Lines begin as
// VMA's do; without a level it is info. The log is closed by the caller; one to standard error needs no closing.
func (s *Settings) OpenLog() (*Log, error) {
	l := &Log{to: os.Stderr, start: time.Now()}
	l.level.Set(slogLevels[s.LogLevel])
	l.details.Store(int32(s.LogDetails))
	if s.LogFile != "" {
		f, err := os.OpenFile(ofProcess(s.LogFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, fmt.Errorf("conf: log file: %w", err)
		}
		l.to, l.file = f, f
	}
	l.Logger = slog.New(&handler{log: l})
	return l, nil
}

// ofProcess puts the number of the process where a file's name has %d, once as in VMA.
func ofProcess(name string) string { return strings.Replace(name, "%d", strconv.Itoa(os.Getpid()), 1) }

// Log is a log in VMA's form. Any goroutine.
type Log struct {
	*slog.Logger
	level   slog.LevelVar
	details atomic.Int32
	start   time.Time
	file    *os.File

	mu sync.Mutex
	to io.Writer
}

// Close closes the log's file, if it has one.
func (l *Log) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// SetLevel changes how much the log tells. Any goroutine.
func (l *Log) SetLevel(level LogLevel) { l.level.Set(slogLevels[level]) }

// SetDetails changes what lines begin with, 0 to 3. Any goroutine.
func (l *Log) SetDetails(n int) error {
	if n < 0 || n > 3 {
		return fmt.Errorf("conf: log details %d: want 0 to 3", n)
	}
	l.details.Store(int32(n))
	return nil
}

// LogAt writes a line to a log at a level.
func LogAt(log *slog.Logger, level LogLevel, line string) {
	log.Log(context.Background(), slogLevels[level], line)
}

// head is what a line begins with. (VMA_LOG_DETAILS)
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

// handler writes a log's lines.
type handler struct {
	log    *Log
	prefix string // of attributes, within groups
	fixed  string // attributes of With
}

// Enabled is slog's.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.log.level.Level()
}

// Handle is slog's.
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	var b bytes.Buffer
	b.WriteString(h.log.head(r.Level) + r.Message + h.fixed)
	r.Attrs(func(a slog.Attr) bool {
		b.WriteString(h.attribute(a))
		return true
	})
	b.WriteByte('\n')
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	_, err := h.log.to.Write(b.Bytes())
	return err
}

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
