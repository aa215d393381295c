package gnet

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/panjf2000/gnet/v2/pkg/logging"
)

// openLog finds the logger as gnet does: the one that is given, else one for the file that is given, else the default. It becomes gnet's
// default. A file that cannot be opened is an error; exact gnet ignores it.
func (o *Options) openLog() error {
	logger, flush := logging.GetDefaultLogger(), logging.GetDefaultFlusher()
	switch {
	case o.Logger != nil:
		logger, flush = o.Logger, nil
	case o.LogPath != "":
		l, f, err := logging.CreateLoggerAsLocalFile(o.LogPath, o.LogLevel)
		if err == nil && !o.ExactGnet {
			err = tryLog(o.LogPath)
		}
		switch {
		case err == nil:
			logger, flush = l, f
		case o.ExactGnet:
			logger.Errorf("log to %s: %v", o.LogPath, err)
		default:
			return fmt.Errorf("gnet: option LogPath %s: %w", o.LogPath, err)
		}
	}
	o.Logger = logger
	logging.SetDefaultLoggerAndFlusher(logger, flush)
	return nil
}

// tryLog opens and closes a log file to see whether that works, because the logger itself opens it with the first line, when it can return no
// error.
func tryLog(name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// slogTo lets the reactors log to a gnet logger.
func slogTo(l logging.Logger) *slog.Logger { return slog.New(&bridge{to: l}) }

type bridge struct {
	to    logging.Logger
	attrs string
}

// Enabled leaves levels to the logger.
func (b *bridge) Enabled(context.Context, slog.Level) bool { return true }

// Handle writes a record as one line.
func (b *bridge) Handle(_ context.Context, r slog.Record) error {
	var line strings.Builder
	line.WriteString(r.Message)
	line.WriteString(b.attrs)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&line, " %s", a)
		return true
	})
	write := b.to.Debugf
	switch {
	case r.Level >= slog.LevelError:
		write = b.to.Errorf
	case r.Level >= slog.LevelWarn:
		write = b.to.Warnf
	case r.Level >= slog.LevelInfo:
		write = b.to.Infof
	}
	write("%s", line.String())
	return nil
}

// WithAttrs adds attributes to every line.
func (b *bridge) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *b
	for _, a := range attrs {
		c.attrs += fmt.Sprintf(" %s", a)
	}
	return &c
}

// WithGroup has no use for groups: the reactors make none.
func (b *bridge) WithGroup(string) slog.Handler { return b }
