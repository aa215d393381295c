package command

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/cmd/xtstat/internal/why"
	"github.com/socketxtreme/socketxtreme/stats"
)

var update = flag.Bool("update", false, "write the examples of docs/monitoring.md anew")

const guidePath = "../../../../docs/monitoring.md"

// guide is docs/monitoring.md.
func guide(t *testing.T) string {
	text, err := os.ReadFile(guidePath)
	require.NoError(t, err)
	return string(text)
}

// guideExample compares an example of the guide with what a command prints; with -update it becomes that.
func guideExample(t *testing.T, command, output string) {
	text := guide(t)
	begin := strings.Index(text, "```\n$ "+command+"\n")
	require.GreaterOrEqual(t, begin, 0, command)
	begin += len("```\n$ " + command + "\n")
	end := begin + strings.Index(text[begin:], "```\n")
	if *update {
		require.NoError(t, os.WriteFile(guidePath, []byte(text[:begin]+output+text[end:]), 0o644))
		return
	}
	require.Equal(t, output, text[begin:end], "go test ./cmd/xtstat/internal/command -run Guide -update")
}

// The examples of docs/monitoring.md are what the commands print of this journal: a stall, a group that was left, messages that the sender lost.
func TestExamplesOfTheGuide(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stats")
	f, err := stats.Create(stats.Config{Directory: dir, Sockets: 4})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	at := time.Date(2026, 3, 2, 9, 30, 0, 0, time.Local)
	const us, ms = int64(1e3), int64(1e6)
	note := func(after int64, x stats.JournalEntry) { // times are from at on
		begin := at.UnixNano()
		x.Time = begin + after
		x.Earliest, x.Latest, x.End = begin+x.Earliest, begin+x.Latest, begin+x.End
		f.Write(&x)
	}
	pollGap := func(end, length int64, code, more string) {
		note(end, stats.JournalEntry{Kind: stats.EventPollGap, Count: uint64(length), Name: "feed", Code: code, Text: code + more, Earliest: end - length,
			Latest: end - length, End: end})
	}
	feedGap := func(before, latest, behind int64, messages uint64, which string) {
		note(behind+2*ms, stats.JournalEntry{Kind: stats.EventFeedGap, Count: messages, Name: "deep",
			Text: "deep " + which + " missing on 233.252.0.1:14340@eth1: no recovery", Earliest: before, Latest: latest, End: behind})
	}
	const group = "233.252.0.1 233.252.0.1:14340 fd=9"
	pollGap(-300*ms, ms, stats.CodePreempted, ": another thread had the processor for 900µs")
	pollGap(-290*ms, 1500*us, stats.CodePreempted, ": another thread had the processor for 1.4ms")
	pollGap(-280*ms, 300*us, stats.CodeUnknown, "")
	feedGap(3*ms, 3*ms, 4*ms, 6138, "86647-92784")
	note(10*ms, stats.JournalEntry{Kind: stats.EventDrop, Count: 2028, Name: "eth1/0", Code: "xdp.rx_dropped", Text: "eth1/0.xdp.rx_dropped", Earliest: 5 * ms,
		Latest: 15 * ms, End: 15 * ms})
	pollGap(0, 400*ms, stats.CodeTimers, ": they took 399.8ms")
	note(700*ms, stats.JournalEntry{Kind: stats.EventLeave, Count: 1, Text: group, Earliest: 700 * ms, Latest: 700 * ms, End: 700 * ms})
	note(750*ms, stats.JournalEntry{Kind: stats.EventJoin, Count: 1, Text: group, Earliest: 750 * ms, Latest: 750 * ms, End: 750 * ms})
	feedGap(700*ms, 702*ms, 750*ms, 1503, "97000-98502")
	feedGap(1400*ms, 1499*ms, 1500*ms, 27, "104000-104026")

	list, err := stats.List(dir)
	require.NoError(t, err)
	r, err := stats.Open(list[0].Path)
	require.NoError(t, err)
	defer r.Close()
	var samples []stats.Sample
	for i := range uint64(3) {
		samples = append(samples, stats.Sample{Time: at.Add(time.Duration(i) * time.Second), Interval: time.Second, Values: map[string]uint64{
			"poller.buffers": 16448, "poller.buffers_used_peak": 64, "ring.packets": 4500 * i, "ring.polls": 2_500_000 * i, "host.eth1.rx_packets": 4500 * i,
			"feed_line.segments": 4500 * i, "feed_line.first_messages": 13_500 * i}})
	}
	var text bytes.Buffer
	from, to := at.Add(-2*time.Second), at.Add(2*time.Second)
	writeFindings(&text, why.Explain(why.Gather(samples, r.Events(), from, to)), nil, from, to)
	guideExample(t, "xtstat why --at 09:30:00", text.String())

	out, errs, code := run("events", "-k", dir, "--at", "2026-03-02T09:30:00", "--window", "0.5s")
	require.Zero(t, code, errs)
	guideExample(t, "xtstat events --at 09:30:00 --window 0.5s", out)
}

// The guide says of each place that why knows what to do about it.
func TestGuideHasEachPlace(t *testing.T) {
	for _, p := range []why.Place{why.Upstream, why.Card, why.Kernel, why.Ring, why.Socket, why.Application} {
		require.True(t, strings.Contains(guide(t), "\n| "+string(p)+" | "), p)
	}
}
