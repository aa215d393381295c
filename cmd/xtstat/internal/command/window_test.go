package command

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/stats"
)

// Without --at the window ends now, not in the future, or a moment behind the end of a process.
func TestWindowEndsNow(t *testing.T) {
	var w window
	w.flags(pflag.NewFlagSet("", pflag.ContinueOnError), 2*time.Second, time.Minute)
	now := time.Now()
	from, to, err := w.bounds(stats.Process{Last: now, Live: true})
	require.NoError(t, err)
	require.False(t, to.After(time.Now()), "%v is in the future", to)
	require.False(t, to.Before(now))
	require.Equal(t, now.Add(-time.Minute), from)
	ended := now.Add(-time.Hour)
	_, to, err = w.bounds(stats.Process{Last: ended})
	require.NoError(t, err)
	require.False(t, to.Before(ended) || to.After(ended.Add(time.Second)), "%v", to)
}

// What was lost before and after the window is said in a line each, with the time to ask for: the largest loss.
func TestLossesOutsideOfTheWindow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stats")
	f, err := stats.Create(stats.Config{Directory: dir, Sockets: 4})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	now := time.Now().Truncate(time.Second)
	lose := func(ago time.Duration, n uint64) {
		at := now.Add(-ago).UnixNano()
		f.Write(&stats.JournalEntry{Kind: stats.EventDrop, Count: n, Name: "eth1/0", Code: "xdp.rx_dropped", Text: "eth1/0.xdp.rx_dropped", Time: at})
	}
	gap := func(ago time.Duration, messages uint64) {
		f.Write(&stats.JournalEntry{Kind: stats.EventFeedGap, Count: messages, Name: "deep", Text: "deep 1-9 missing on a", Time: now.Add(-ago).UnixNano()})
	}
	clock := func(ago time.Duration) string { return now.Add(-ago).Format("15:04:05") }
	why := func(more ...string) string {
		out, errs, code := run(append([]string{"why", "-k", dir}, more...)...)
		require.Zero(t, code, errs)
		return out
	}
	lose(5*time.Minute, 2110)
	gap(5*time.Minute, 6330) // follows from it: no other loss
	lose(4*time.Minute, 12)
	lose(10*time.Second, 30)
	require.Contains(t, why(), fmt.Sprintf("also lost earlier: %s, 2110 frames (ring): xtstat why --at %[1]s; and 1 more\n\n1. ring: ", clock(5*time.Minute)))
	require.NotContains(t, why("--window", "10m"), "also lost")
	middle := why("--at", now.Add(-4*time.Minute).Format("2006-01-02T15:04:05"))
	require.Contains(t, middle, fmt.Sprintf("also lost earlier: %s, 2110 frames (ring): xtstat why --at %[1]s\n", clock(5*time.Minute)))
	require.Contains(t, middle, fmt.Sprintf("also lost later: %s, 30 frames (ring): xtstat why --at %[1]s\n", clock(10*time.Second)))
	require.Contains(t, middle, "1. ring: "+clock(4*time.Minute)+".000 12 frames")
}
