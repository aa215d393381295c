package conf

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// The levels keep their order in package slog, and those that package slog has are its own.
func TestLevelsOfPackageSlog(t *testing.T) {
	require.Equal(t, []slog.Level{slog.LevelError, slog.LevelWarn, slog.LevelInfo, slog.LevelDebug},
		[]slog.Level{LogError.Level(), LogWarn.Level(), LogInfo.Level(), LogDebug.Level()})
	for i, l := range logLevels[1:] {
		if l != LogAll { // as LogFiner
			require.Less(t, l.Level(), logLevels[i].Level(), l)
		}
	}
}
