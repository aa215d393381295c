package conf

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLogLevels(t *testing.T) {
	for text, want := range map[string]LogLevel{"none": LogNone, "PANIC": LogPanic, "0": LogPanic, "1": LogError,
		"2": LogWarn, "3": LogInfo, "4": LogDebug,
		"5": LogFine, "6": LogFiner, "Details": LogDetails, "all": LogAll, "warning": LogWarn, "func": LogFine, "func+": LogFiner, "FUNC_ALL": LogFiner,
		"func-all": LogFiner, "funcall": LogFiner} {
		got, err := ParseLogLevel(text)
		require.NoError(t, err)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "7", "-1", "loud"} {
		_, err := ParseLogLevel(text)
		require.Error(t, err, text)
	}
	require.True(t, LogDebug.Includes(LogInfo))
	require.True(t, LogInfo.Includes(LogInfo))
	require.False(t, LogWarn.Includes(LogInfo))
	require.False(t, LogNone.Includes(LogPanic))
}

func TestLogLines(t *testing.T) {
	dir := t.TempDir()
	s := Default()
	s.LogLevel, s.LogDetails, s.LogFile = LogInfo, 0, filepath.Join(dir, "log.%d")
	l, err := s.OpenLog()
	require.NoError(t, err)
	l.Debug("not told")
	l.With("loop", "a b").WithGroup("g").Info("said", slog.Int("n", 3), "empty", "")
	l.Error("wrong", "error", fmt.Errorf("x=y"))
	require.NoError(t, l.Close())
	path := filepath.Join(dir, fmt.Sprintf("log.%d", os.Getpid()))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, " SX INFO: said loop=\"a b\" g.n=3 g.empty=\"\"\n SX ERROR: wrong error=\"x=y\"\n", string(text))

	for details, want := range map[int]string{1: `^ Tid: +\d+ SX WARN: line 1$`, 2: `^ Pid: +\d+ Tid: +\d+ SX WARN: line 2$`} {
		s.LogDetails = details
		l, err = s.OpenLog()
		require.NoError(t, err)
		l.Warn(fmt.Sprint("line ", details))
		require.NoError(t, l.Close())
		text, err = os.ReadFile(path)
		require.NoError(t, err)
		require.Regexp(t, "(?m)"+want, string(text))
	}
	s.LogDetails = 3
	l, err = s.OpenLog()
	require.NoError(t, err)
	l.Warn("appended")
	require.NoError(t, l.Close())
	text, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Regexp(t, `(?m)^ Time: \d+\.\d{3} Pid: +\d+ Tid: +\d+ SX WARN: appended$`, string(text))

	s.LogFile = filepath.Join(dir, "none", "log")
	_, err = s.OpenLog()
	require.ErrorIs(t, err, os.ErrNotExist)
}
