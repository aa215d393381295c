package xtreme_test

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/stats"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// sharedText is a text that several goroutines write and read.
type sharedText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *sharedText) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *sharedText) count(word string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.text.String(), word)
}

// defaultLog makes slog.Default a log at info whose lines are in a text, for the time of the test.
func defaultLog(t *testing.T) *sharedText {
	text := new(sharedText)
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(text, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return text
}

// answered asks a process, and closes the answer.
func answered(t *testing.T, r *stats.Reader, what string, with map[string]any) {
	t.Helper()
	in, err := r.Ask(what, with)
	require.NoError(t, err)
	require.NoError(t, in.Close())
}

// xtstat -l and -D work where nothing was prepared: an engine that logs to slog.Default writes what the level asks for there, also below the
// level of slog.Default, and for a time if that is asked for. Other lines of the program's keep their level. A dump is there once, also with
// several engines.
func TestLogLevelOfSlogDefault(t *testing.T) {
	text := defaultLog(t)
	s := conf.Default()
	s.Ring, s.StatsDirectory, s.SmallBuffers, s.LargeBuffers = conf.RingEpoll, filepath.Join(t.TempDir(), "stats"), 512, 16
	e, err := xtreme.New(s)
	require.NoError(t, err)
	other, err := xtreme.New(s)
	require.NoError(t, err)
	list, err := stats.List(s.StatsDirectory)
	require.NoError(t, err)
	require.Len(t, list, 1)
	r, err := stats.Open(list[0].Path)
	require.NoError(t, err)
	debugs := func() bool { return e.Logger().Enabled(context.Background(), slog.LevelDebug) }

	e.Logger().Debug("call 1")
	answered(t, r, "log", map[string]any{"level": "debug", "details": 1})
	require.True(t, debugs())
	e.Logger().Debug("call 2")
	slog.Debug("the program's")
	slog.Info("also the program's")
	require.Zero(t, text.count("call 1"))
	require.Equal(t, 1, text.count(`level=DEBUG msg="call 2" tid=`))
	require.Zero(t, text.count(`msg="the program's"`), "only the library's lines have the level")
	require.Equal(t, 1, text.count("msg=\"also the program's\"\n"))

	p, err := e.NewPoller("dumped", xtreme.PollerConfig{})
	require.NoError(t, err)
	_, err = p.OpenUDP(loopback, xtreme.UDPConfig{})
	require.NoError(t, err)
	answered(t, r, "dump", map[string]any{"level": "debug"})
	require.Equal(t, 1, text.count("Fd=["))
	require.NoError(t, p.Close())

	answered(t, r, "log", map[string]any{"level": "error"})
	e.Logger().Warn("not told")
	require.Zero(t, text.count("not told"))
	answered(t, r, "log", map[string]any{"level": "finer", "seconds": 0.05})
	require.True(t, debugs())
	require.Eventually(t, func() bool { return !debugs() }, patience, time.Millisecond, "the change is taken back")
	require.NoError(t, r.Close())
	require.NoError(t, other.Close())
	require.NoError(t, e.Close())
}

// Refusals of the control socket do not fill the log: a line says how many there were.
func TestRefusalsAreLimited(t *testing.T) {
	var text sharedText
	s := conf.Default()
	s.Ring, s.StatsDirectory, s.Logger = conf.RingEpoll, filepath.Join(t.TempDir(), "stats"), slog.New(slog.NewTextHandler(&text, nil))
	e, err := xtreme.New(s)
	require.NoError(t, err)
	list, err := stats.List(s.StatsDirectory)
	require.NoError(t, err)
	require.Len(t, list, 1)
	r, err := stats.Open(list[0].Path)
	require.NoError(t, err)
	const n = 50
	begin := time.Now()
	for range n {
		_, err := r.Ask("nonsense", nil)
		require.Error(t, err)
	}
	took := time.Since(begin)
	require.NoError(t, r.Close())
	require.NoError(t, e.Close())
	const refused = "a request at the control socket of the statistics was refused"
	require.LessOrEqual(t, text.count(`msg="`+refused+`"`), 10*(1+int(took/time.Second)))
	require.Positive(t, text.count(refused+": "), "how many were left out")
}
