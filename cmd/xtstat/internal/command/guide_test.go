package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/cmd/xtstat/internal/why"
	"github.com/socketxtreme/socketxtreme/stats"
)

// guide is docs/monitoring.md.
func guide(t *testing.T) string {
	text, err := os.ReadFile("../../../../docs/monitoring.md")
	require.NoError(t, err)
	return string(text)
}

// The examples of docs/monitoring.md are what the commands print of this journal: a stall, a group that was left, messages that the sender lost.
func TestExamplesOfTheGuide(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stats")
	f, err := stats.Create(stats.Config{Directory: dir, Sockets: 4})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	at := time.Date(2026, 3, 2, 9, 30, 0, 0, time.Local)
	note := func(ms int, kind stats.EventKind, count uint64, text string) {
		f.NoteAt(at.Add(time.Duration(ms)*time.Millisecond), kind, nil, count, text)
	}
	const group, missing = "233.252.0.1 233.252.0.1:14340 fd=9", " missing on 233.252.0.1:14340@eth1 since "
	note(-300, stats.EventPollGap, 1e6, "feed: preempted: another thread had the processor for 900µs")
	note(-290, stats.EventPollGap, 1500e3, "feed: preempted: another thread had the processor for 1.4ms")
	note(-280, stats.EventPollGap, 300e3, "feed: unknown")
	note(6, stats.EventFeedGap, 6138, "deep 86647-92784"+missing+"2ms: no recovery")
	note(10, stats.EventDrop, 2028, "eth1/0.xdp.rx_dropped")
	note(0, stats.EventPollGap, 400e6, "feed: timers: they took 399.8ms")
	note(700, stats.EventLeave, 1, group)
	note(750, stats.EventJoin, 1, group)
	note(752, stats.EventFeedGap, 1503, "deep 97000-98502"+missing+"52ms: no recovery")
	note(1504, stats.EventFeedGap, 27, "deep 104000-104026"+missing+"5ms: no recovery")

	list, err := stats.List(dir)
	require.NoError(t, err)
	r, err := stats.Open(list[0].Path)
	require.NoError(t, err)
	defer r.Close()
	var samples []stats.Sample
	for i := range uint64(3) {
		samples = append(samples, stats.Sample{Time: at.Add(time.Duration(i) * time.Second), Interval: time.Second, Values: map[string]uint64{
			"poller.buffers": 16448, "poller.buffers_used_peak": 64, "ring.packets": 4500 * i, "ring.polls": 2_500_000 * i, "host.eth1.rx_packets": 4500 * i}})
	}
	var text bytes.Buffer
	from, to := at.Add(-2*time.Second), at.Add(2*time.Second)
	writeFindings(&text, why.Explain(why.Gather(samples, r.Events(), from, to)), from, to)
	require.Contains(t, guide(t), "```\n$ xtstat why --at 09:30:00\n"+text.String()+"```\n", text.String())

	out, errs, code := run("events", "-k", dir, "--at", "2026-03-02T09:30:00", "--window", "0.5s")
	require.Zero(t, code, errs)
	require.Contains(t, guide(t), "```\n$ xtstat events --at 09:30:00 --window 0.5s\n"+out+"```\n", out)
}

// The guide says of each place that why knows what to do about it.
func TestGuideHasEachPlace(t *testing.T) {
	for _, p := range []why.Place{why.Upstream, why.Card, why.Kernel, why.Ring, why.Socket, why.Application} {
		require.True(t, strings.Contains(guide(t), "\n| "+string(p)+" | "), p)
	}
}
