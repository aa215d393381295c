package main

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/live"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/replay"
	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// The synthetic exchange on each ring: the handler's books are the exchange's, and the files are what they should be.
func TestTheExchangeOnLoopback(t *testing.T) {
	for _, kind := range []conf.RingKind{conf.RingUring, conf.RingEpoll, conf.RingOffload} {
		t.Run(string(kind), func(t *testing.T) {
			dir := t.TempDir()
			c, err := parse([]string{"-ring", string(kind), "-duration", "1s", "-rate", "3000", "-loss", "300",
				"-attempts", "20", "-summary", dir + "/s.json", "-tob", dir + "/t.csv", "-events", dir + "/e.jsonl"})
			require.NoError(t, err)
			require.NoError(t, exchange(t.Context(), c))
			b, err := os.ReadFile(dir + "/s.json")
			require.NoError(t, err)
			var s handler.Summary
			require.NoError(t, json.Unmarshal(b, &s))
			require.Equal(t, "SYNC", s.Channels[0].State)
			require.NotEmpty(t, s.Paths)
			for _, path := range s.Paths {
				require.Equal(t, kind == conf.RingOffload, strings.Contains(path, "[link.loopback]"), "loopback cannot be offloaded: %s", path)
			}
			require.NotZero(t, s.Ring.Packets)
			require.Zero(t, s.Ring.LinkDrops)
			require.Zero(t, s.Ring.Buffers.Held)
			require.NotZero(t, s.Channels[0].Gaps.FilledByLine)
			b, err = os.ReadFile(dir + "/t.csv")
			require.NoError(t, err)
			require.Equal(t, s.Books.Symbols+1, bytes.Count(b, []byte("\n")))
			b, err = os.ReadFile(dir + "/e.jsonl")
			require.NoError(t, err)
			for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
				var e event
				require.NoError(t, json.Unmarshal([]byte(line), &e), "%s", line)
				require.Equal(t, "exchange", e.Channel)
				require.NotEmpty(t, e.Cause)
			}
		})
	}
}

func TestCompareNoticesADifference(t *testing.T) {
	s := handler.Summary{Channels: []handler.ChannelSummary{{Messages: 5}}}
	var x = reportOf(5)
	require.NoError(t, compare(x, &s))
	require.ErrorContains(t, compare(reportOf(6), &s), "5 of 6 messages")
	x.Digest = "other"
	require.ErrorContains(t, compare(x, &s), "books differ")
}

func TestFlags(t *testing.T) {
	c, err := parse([]string{"-proto", "deep", "-a", "239.1.1.1:1@lo", "-b", "239.1.1.2:1@lo", "-recovery", "127.0.0.1:9",
		"-a", "239.1.1.3:1@lo/10.0.0.1"})
	require.NoError(t, err)
	require.Len(t, c.channels, 2)
	require.Len(t, c.channels[0].Lines, 2)
	require.True(t, c.channels[0].Recovery.IsValid())
	require.Equal(t, "239.1.1.3:1@lo/10.0.0.1", c.channels[1].Lines[0].String())
	c, err = parse([]string{"-ring", "offload"})
	require.NoError(t, err)
	require.Equal(t, conf.RingOffload, c.ring)
	for _, bad := range [][]string{
		{"-proto", "fix"}, {"-ring", "dpdk"}, {"stray"}, {"-b", "239.1.1.1:1@lo"},
		{"-a", "10.0.0.1:1@lo"}, {"-a", "239.1.1.1:1@lo", "-b", "x"}, {"-pcap", "f", "-a", "239.1.1.1:1@lo"},
		{"-a", "239.1.1.1:1@lo", "-recovery", "127.0.0.1:1"},
		{"-proto", "deep", "-a", "239.1.1.1:1@lo", "-recovery", "nowhere"},
		{"-attempts", "0"}, {"-rate", "0"}, {"-loss", "10001"}, {"-gap", "-1s"}, {"-proto", "itch", "-a", "239.1.1.1:1@lo"},
	} {
		_, err := parse(bad)
		require.Error(t, err, "%v", bad)
		require.Contains(t, err.Error(), strings.TrimPrefix(bad[len(bad)-2+len(bad)%2], "-"),
			"the error names the argument: %v", err)
	}
}

func TestViews(t *testing.T) {
	l, err := live.Open(live.Config{Ring: conf.RingEpoll, Idle: time.Millisecond, Channels: []live.Channel{{
		Handler: handler.Config{Name: "ch", Proto: handler.DEEP},
		Lines:   []live.Line{mustLine(t, "233.252.0.1:45999@lo"), mustLine(t, "233.252.0.2:45999@lo")}}}})
	require.NoError(t, err)
	for _, terminal := range []bool{false, true} {
		var b bytes.Buffer
		v := &view{out: &b, terminal: terminal}
		v.each(l) // the first call only looks at the clock
		require.Zero(t, b.Len())
		v.last = v.last.Add(-2 * time.Second)
		v.each(l)
		require.Contains(t, b.String(), "ch")
		require.Contains(t, b.String(), "INIT")
		require.Equal(t, terminal, strings.Contains(b.String(), "line B"))
		b.Reset()
		v.last = v.last.Add(-2 * time.Second)
		v.each(l)
		require.Equal(t, terminal, strings.HasPrefix(b.String(), "\x1b["), "a terminal is drawn over")
	}
	require.NoError(t, l.Run(t.Context()))
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)
	require.False(t, isTerminal(f))
	require.NoError(t, f.Close())
}

// A line that falls silent, is heard again, or travels another way is told: at once, on a terminal above the picture.
func TestWhatHappensToALineIsTold(t *testing.T) {
	channels := []live.Channel{{Handler: handler.Config{Name: "ch", Proto: handler.DEEP},
		Lines: []live.Line{mustLine(t, "233.252.0.1:45999@lo"), mustLine(t, "233.252.0.2:45999@lo")}}}
	c, err := handler.NewChannel(handler.Config{Name: "ch", Proto: handler.DEEP,
		Lines: []netip.AddrPort{channels[0].Lines[0].Group, channels[0].Lines[1].Group}})
	require.NoError(t, err)
	want := "ch line B 233.252.0.2:45999@lo: dead: nothing has come for 3s; next is 7\n" +
		"ch line B 233.252.0.2:45999@lo: alive again; next is 9\n" +
		"233.252.0.1:45999@lo: the path has changed: os offload · down [link.down]\n"
	for _, terminal := range []bool{false, true} {
		var b bytes.Buffer
		v := &view{out: &b, terminal: terminal, channels: channels}
		logged := 0
		tell := v.watched(func(*handler.Channel, *feed.Event) { logged++ })
		tell(c, &feed.Event{Kind: feed.LineDead, Line: 1, Seq: 7})
		tell(c, &feed.Event{Kind: feed.LineAlive, Line: 1, Seq: 9})
		tell(c, &feed.Event{Kind: feed.StateChanged})
		v.moved("233.252.0.1:45999@lo", xtreme.Path{Tier: "os", Kind: "offload",
			Reasons: []ring.Reason{{Code: "link.down", Text: "down"}}})
		require.Equal(t, 3, logged, "the event log has all of them")
		if terminal {
			require.Zero(t, b.Len(), "with the next picture")
		}
		v.tellNotes()
		require.Equal(t, want, b.String())
	}
}

func mustLine(t *testing.T, s string) live.Line {
	l, err := live.ParseLine(s)
	require.NoError(t, err)
	return l
}

func reportOf(messages uint64) replay.ExchangeReport {
	return replay.ExchangeReport{Messages: messages}
}

// Without the flag the environment's kind of ring is used.
func TestRingOfTheEnvironment(t *testing.T) {
	t.Setenv("SX_RING", "epoll")
	c, err := parse(nil)
	require.NoError(t, err)
	require.Equal(t, conf.RingEpoll, c.ring)
}
