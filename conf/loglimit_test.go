package conf

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// sharedText is a text that the timers of limiters write as well.
type sharedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *sharedText) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *sharedText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// limitedLog is a log in VMA's form whose lines are in a text. The tests run it with the clock of package synctest.
func limitedLog() (l *Log, text *sharedText) {
	s := Default()
	text = new(sharedText)
	l = s.LogThrough(slog.New(slog.NewTextHandler(text, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})))
	return l, text
}

// Of a warning or error that is repeated the first lines of a second are written, then how many more there were. Each message, and each level,
// is counted by itself, whatever its attributes; loggers that are made of the log have no count of their own.
func TestRepeatedLinesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, text := limitedLog()
		with := l.With("loop", "a")
		for i := range 50 {
			l.Warn("ring error", "n", i)
			with.Warn("ring error", "n", i)
			l.Error("ring error")
			l.Info("told")
			l.Debug("call")
			time.Sleep(time.Millisecond)
		}
		l.Warn("another")
		count := func(line string) int { return strings.Count("\n"+text.String(), "\n"+line) }
		require.Equal(t, 10, count(`level=WARN msg="ring error"`))
		require.Equal(t, 5, count(`level=WARN msg="ring error" loop=a`))
		require.Equal(t, 10, count(`level=ERROR msg="ring error"`))
		require.Equal(t, 50, count(`level=INFO msg=told`), "below warning there is no limit")
		require.Equal(t, 50, count(`level=DEBUG msg=call`))
		require.Equal(t, 1, count(`level=WARN msg=another`))
		require.NotContains(t, text.String(), "more like it", "the second is not over")

		time.Sleep(time.Second) // no further line comes: the timer ends the second
		synctest.Wait()
		require.Equal(t, 1, count("level=WARN msg=\"ring error: 90 more like it\"\n"), text.String())
		require.Equal(t, 1, count("level=ERROR msg=\"ring error: 40 more like it\"\n"))
		require.Equal(t, 2, strings.Count(text.String(), "more like it"))

		for range 11 { // the next second has room again
			l.Warn("ring error")
		}
		require.Equal(t, 2*10, count(`level=WARN msg="ring error"`))
		require.NoError(t, l.Close())
		require.Equal(t, 1, count("level=WARN msg=\"ring error: 1 more like it\"\n"), "Close does not lose the count")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 3, strings.Count(text.String(), "more like it"))
	})
}

// A flood for a minute: a line says for each second how many were left out, and nothing is lost from the count.
func TestAFloodIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, text := limitedLog()
		const n, minute = 60_000, time.Minute
		for range n {
			l.Warn("flood")
			time.Sleep(minute / n)
		}
		require.NoError(t, l.Close())
		synctest.Wait() // a timer may be writing
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		require.InDelta(t, 60*(limitLines+1), len(lines), limitLines+1)
		sum := 0
		for _, line := range lines {
			more := 0
			if _, err := fmt.Sscanf(line, `level=WARN msg="flood: %d more like it"`, &more); err != nil {
				require.Equal(t, "level=WARN msg=flood", line)
				more = 1
			}
			sum += more
		}
		require.Equal(t, n, sum)
	})
}

// What differs is not limited, and does not use memory without end.
func TestMessagesThatDifferAreNotLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, text := limitedLog()
		const n = 3 * limitMessages
		for i := range n {
			l.Warn(fmt.Sprint("message ", i))
		}
		require.Equal(t, n, strings.Count(text.String(), "\n"))
		require.Len(t, l.limiter.lines, limitMessages)
		for range limitLines {
			l.Warn("message 0")
		}
		require.Equal(t, n+limitLines-1, strings.Count(text.String(), "\n"), "counted messages are still limited")
		require.NoError(t, l.Close())
	})
}

// A line that was asked for is written however often: the dump of sockets has equal ones.
func TestLinesThatWereAskedForAreNotLimited(t *testing.T) {
	l, text := limitedLog()
	for range 3 * limitLines {
		LogAt(l.Logger, LogError, "======")
	}
	require.Equal(t, 3*limitLines, strings.Count(text.String(), "======"))
	require.NoError(t, l.Close())
}

// A logger is not limited twice, also not what With made of it.
func TestALoggerIsLimitedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := limitedLog()
		require.Same(t, l.Logger, LimitRepeats(l.Logger))
		w := l.With("a", 1)
		require.Same(t, w, LimitRepeats(w))
		var text sharedText
		given := LimitRepeats(slog.New(slog.NewTextHandler(&text, nil)))
		for range 2 * limitLines {
			given.Warn("ring error")
		}
		require.Equal(t, limitLines, strings.Count(text.String(), "\n"))
		time.Sleep(limitWindow)
		synctest.Wait()
		require.Equal(t, limitLines+1, strings.Count(text.String(), "\n"))
	})
}
