package xtreme_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/stats"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// What the control socket refuses is in one log, that of an engine which is open, also after the engine that has opened the socket is closed.
func TestRefusalsAreLoggedByAnEngineThatIsOpen(t *testing.T) {
	dir := t.TempDir()
	engine := func(name string) *xtreme.Engine {
		s := conf.Default()
		s.Ring, s.StatsDirectory, s.LogFile = conf.RingEpoll, filepath.Join(dir, "stats"), filepath.Join(dir, name)
		e, err := xtreme.New(s)
		require.NoError(t, err)
		return e
	}
	refusals := func(name string) int {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return strings.Count(string(text), "was refused")
	}
	first, second := engine("first"), engine("second")
	list, err := stats.List(filepath.Join(dir, "stats"))
	require.NoError(t, err)
	require.Len(t, list, 1, "both share a file")
	r, err := stats.Open(list[0].Path)
	require.NoError(t, err)
	defer r.Close()
	ask := func() {
		_, err := r.Ask("nonsense", nil)
		require.Error(t, err)
	}

	ask()
	require.Eventually(t, func() bool { return refusals("first") == 1 }, patience, time.Millisecond)
	require.NoError(t, first.Close())
	ask()
	require.Eventually(t, func() bool { return refusals("second") == 1 }, patience, time.Millisecond)
	require.Equal(t, 1, refusals("first"))
	require.NoError(t, second.Close())
	require.Equal(t, 1, refusals("second"))
}
