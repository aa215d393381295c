package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/replay"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/report"
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
				var e report.Event
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
