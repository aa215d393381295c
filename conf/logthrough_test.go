package conf

import (
	"context"
	"io"
	"log"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// stubborn is a handler of another package's: it writes only what its Enabled accepts.
type stubborn struct{ slog.Handler }

func (h stubborn) Handle(ctx context.Context, r slog.Record) error {
	if !h.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h stubborn) WithAttrs(list []slog.Attr) slog.Handler {
	return stubborn{h.Handler.WithAttrs(list)}
}

func (h stubborn) WithGroup(name string) slog.Handler { return stubborn{h.Handler.WithGroup(name)} }

// A log through another logger has that one's levels until it gets a level of its own, which counts in both directions. A line that the logger's
// handler would refuse is written nevertheless: by the handlers of package slog, else to standard error.
func TestALogThroughAnotherLogger(t *testing.T) {
	for name, c := range map[string]struct {
		logger func(io.Writer) *slog.Logger
		fine   bool // the handler takes what its Enabled refuses
	}{
		"slog.Default": {func(w io.Writer) *slog.Logger {
			before := log.Writer()
			log.SetOutput(w)
			t.Cleanup(func() { log.SetOutput(before) })
			return slog.Default()
		}, true},
		"text":     {func(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }, true},
		"JSON":     {func(w io.Writer) *slog.Logger { return slog.New(slog.NewJSONHandler(w, nil)) }, true},
		"stubborn": {func(w io.Writer) *slog.Logger { return slog.New(stubborn{slog.NewTextHandler(w, nil)}) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, w, err := os.Pipe()
			require.NoError(t, err)
			defer r.Close()
			stderr := os.Stderr
			os.Stderr = w
			defer func() { os.Stderr = stderr }()

			var text strings.Builder
			logger := c.logger(&text)
			s := Default()
			l := s.LogThrough(logger)
			require.Same(t, logger, l.Through())
			before := l.State()
			write := func(word string) {
				of := l.With("loop", "a")
				of.Debug("debug " + word)
				of.Info("info " + word)
				of.Warn("warn " + word)
			}
			write("first")
			l.SetLevel(LogDebug)
			write("second")
			l.SetLevel(LogWarn)
			write("third")
			l.Restore(before)
			write("fourth")
			require.NoError(t, l.SetDetails(3))
			write("fifth")
			require.NoError(t, l.Close())
			require.NoError(t, w.Close())
			refused, err := io.ReadAll(r)
			require.NoError(t, err)
			written := []string{"info first", "warn first", "info second", "warn second", "warn third", "info fourth", "warn fourth", "info fifth", "warn fifth"}
			if c.fine {
				written = append(written, "debug second")
				require.Empty(t, string(refused))
			} else {
				require.Equal(t, " SX DEBUG: debug second loop=a\n", string(refused))
			}
			lines := strings.Split(strings.TrimSpace(text.String()), "\n")
			require.Len(t, lines, len(written), text.String())
			for _, want := range written {
				require.Contains(t, text.String(), want)
			}
			for _, line := range lines {
				fifth := strings.Contains(line, "fifth")
				for _, detail := range []string{"tid", "pid", "ms"} {
					require.Equal(t, fifth, strings.Contains(line, " "+detail+"=") || strings.Contains(line, `,"`+detail+`":`), line)
				}
			}
		})
	}
}
