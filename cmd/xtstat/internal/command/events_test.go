package command

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/stats"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// journalOf makes a file whose journal has gaps between polls, among them a long one, around a drop of a socket. The drop is noted last, for an
// earlier time.
func journalOf(t *testing.T) (dir string, begin time.Time) {
	dir = filepath.Join(t.TempDir(), "stats")
	f, err := stats.Create(stats.Config{Directory: dir, Sockets: 4})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	poller := f.Open(stats.Pollers, nil, 0)
	poller.SetInfo("name=feed\n")
	s := f.Open(stats.Sockets, nil, 9)
	s.SetInfo("local=10.0.0.1:5000\n")
	begin = time.Now().Add(time.Second).Truncate(time.Second) // behind the blocks' opening
	at := func(ms int) int64 { return begin.Add(time.Duration(ms) * time.Millisecond).UnixNano() }
	gap := func(end int, ms uint64, code, more string) {
		f.Write(&stats.JournalEntry{Kind: stats.EventPollGap, Of: poller, Count: ms * 1e6, Name: "feed", Code: code, Text: code + more, Time: at(end),
			Earliest: at(end - int(ms))})
	}
	gap(10, 1, stats.CodePreempted, ": another thread had the processor for 1ms")
	gap(20, 3, stats.CodeHandler, ": 4 completions of fd=9")
	gap(30, 2, stats.CodePreempted, ": another thread had the processor for 2ms; 7 more like it were left out")
	gap(50, 5, stats.CodeUnknown, "")
	gap(400, 300, stats.CodeStopped, ": no thread of the process ran")
	gap(410, 1, stats.CodeUnknown, "")
	gap(420, 2, stats.CodeUnknown, "")
	f.Write(&stats.JournalEntry{Kind: stats.EventDrop, Of: s, Count: 3, Code: "drops", Text: "drops", Time: at(40)})
	return dir, begin
}

// Gaps between polls that follow each other are one line with their number, causes, end and the longest one; long ones and others stand alone.
// All is in the order of time.
func TestGapsBetweenPollsAreFolded(t *testing.T) {
	dir, begin := journalOf(t)
	at := func(ms int, layout string) string {
		return begin.Add(time.Duration(ms) * time.Millisecond).Format(layout)
	}
	out, errs, code := run("events", "-k", dir)
	require.Zero(t, code, errs)
	require.Equal(t, []string{
		at(10, eventLayout) + " poll_gap  3 gaps between polls of feed until " + at(30, timeLayout) + " (2 preempted, 1 handler); the longest: 3ms at " + at(20, timeLayout),
		at(40, eventLayout) + " drop      drops +3: datagrams lost for want of room in the receive buffer or budget (fd=9 10.0.0.1:5000)",
		at(50, eventLayout) + " poll_gap  5ms between two polls of feed: unknown",
		at(400, eventLayout) + " poll_gap  300ms between two polls of feed: stopped: no thread of the process ran",
		at(410, eventLayout) + " poll_gap  2 gaps between polls of feed until " + at(420, timeLayout) + " (2 unknown); the longest: 2ms at " + at(420, timeLayout),
	}, strings.Split(strings.TrimSuffix(out, "\n"), "\n"))
	for _, option := range []string{"--all", "--json"} {
		out, errs, code = run("events", "-k", dir, option)
		require.Zero(t, code, errs)
		require.Equal(t, 8, strings.Count(out, "\n"), option)
	}
	out, errs, code = run("events", "-k", dir, "--at", at(400, "2006-01-02T15:04:05.000"), "--window", "15ms")
	require.Zero(t, code, errs)
	require.Equal(t, 2, strings.Count(out, "\n"), out)
}

// A window without a time is before the last sign of life, as that of the other commands.
func TestWindowOfEvents(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stats")
	f, err := stats.Create(stats.Config{Directory: dir})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	f.Write(&stats.JournalEntry{Kind: stats.EventNote, Count: 1, Text: "yesterday", Time: time.Now().Add(-24 * time.Hour).UnixNano()})
	f.Note(stats.EventNote, nil, 1, "now")
	out, errs, code := run("events", "-k", dir)
	require.Zero(t, code, errs)
	require.Contains(t, out, "yesterday")
	out, errs, code = run("events", "-k", dir, "--window", "12h")
	require.Zero(t, code, errs)
	require.NotContains(t, out, "yesterday")
	require.Contains(t, out, "now")
}

// A poller's name may have a colon: its gaps have the name of the poller, and causes.
func TestGapsOfAPollerWithAColon(t *testing.T) {
	s := conf.Default()
	s.Ring, s.SmallBuffers, s.LargeBuffers, s.StatsDirectory = conf.RingEpoll, 64, 8, filepath.Join(t.TempDir(), "stats")
	e, err := xtreme.New(s)
	require.NoError(t, err)
	p, err := e.NewPoller("feed: A", xtreme.PollerConfig{})
	require.NoError(t, err)
	defer func() {
		require.NoError(t, p.Close())
		require.NoError(t, e.Close())
	}()
	var done [4]xtreme.Completion
	for end := time.Now().Add(20 * time.Second); ; {
		for range 10 {
			_, err := p.Poll(done[:])
			require.NoError(t, err)
			time.Sleep(2 * time.Millisecond)
		}
		out, errs, code := run("events", "-k", s.StatsDirectory, "--kind", "poll_gap")
		require.Zero(t, code, errs)
		if strings.Contains(out, " gaps between polls of ") {
			require.Contains(t, out, " gaps between polls of feed: A until ")
			require.NotRegexp(t, `\([^)]*\bA\b`, out)
			return
		}
		require.True(t, time.Now().Before(end), out)
	}
}
