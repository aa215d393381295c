package xtreme_test

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/stats"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// twoLines is a feed that has lost a message on line A, which B brought, and one on both, which recovery brought.
func twoLines(t testing.TB) *feed.Channel[uint64] {
	c, err := feed.New[uint64](feed.Config{Lines: 2, GapTime: 10, Recovery: feed.RecoveryConfig{Attempts: 3, Timeout: 1000, Outstanding: 4, Budget: 100}})
	require.NoError(t, err)
	in := func(line uint8, seq uint64, at int64) {
		c.Input(&feed.Segment[uint64]{Session: 1, Seq: seq, Count: 1, Line: line, Arrival: at, Payload: []byte("twelve bytes")})
		for d := (feed.Delivery[uint64]{}); c.Next(&d); {
		}
	}
	for _, x := range []struct {
		line uint8
		seq  uint64
	}{{0, 1}, {1, 1}, {0, 3}, {1, 2}, {1, 3}, {0, 5}, {1, 5}} {
		in(x.line, x.seq, 1)
	}
	c.Poll(100)
	for d := (feed.Delivery[uint64]{}); c.Next(&d); {
	}
	require.True(t, c.Request(100, &feed.Request{}))
	in(feed.Recovery, 4, 101)
	return c
}

// What a feed counts is in the file when it was stored, each line by its name; the last stored is what is read when the feed is closed.
func TestPublishedFeed(t *testing.T) {
	w, r := published(t, conf.RingEpoll)
	c := twoLines(t)
	p := w.engine.PublishFeed("itch", "A@eth0", "B@eth1")
	w.Zero(r.Blocks(stats.Feeds)[0].Totals["delivered_messages"])
	p.Store(c)
	f := r.Blocks(stats.Feeds)
	w.Len(f, 1)
	w.Equal("itch", f[0].Info["feed"])
	for name, want := range map[string]uint64{"delivered_messages": 5, "recovered_messages": 1, "unrecovered_messages": 0, "gaps": 2,
		"filled_by_line_messages": 1, "recovery_requests": 1, "open_gaps": 0, "next_sequence": 6} {
		w.Equal(want, f[0].Totals[name], name)
	}
	lines := r.Blocks(stats.Lines)
	w.Len(lines, 3)
	for i, want := range []struct {
		name                                                 string
		segments, first, duplicates, gaps, lost, fills, last uint64
	}{{"A@eth0", 3, 3, 0, 2, 2, 0, 5}, {"B@eth1", 4, 1, 3, 1, 1, 1, 5}, {"recovery", 1, 1, 0, 0, 0, 1, 4}} {
		n := lines[i].Totals
		w.Equal(want.name, lines[i].Info["line"])
		w.Equal("itch", lines[i].Info["feed"])
		w.Equal(f[0].Index, lines[i].Parent)
		w.Equal([]uint64{want.segments, 12 * want.segments, want.first, want.duplicates, want.gaps, want.lost, want.fills, want.last},
			[]uint64{n["segments"], n["bytes"], n["first_messages"], n["duplicate_messages"], n["gaps"], n["lost_messages"], n["filled_messages"],
				n["last_sequence"]}, want.name)
	}
	w.Zero(testnet.LeastAllocs(100, func() { p.Store(c) }))
	s := w.udp(w.at(0))
	p.SetSocket(1, s)
	w.Equal(map[string]string{"feed": "itch", "line": "B@eth1", "socket": strconv.Itoa(s.ID())}, r.Blocks(stats.Lines)[1].Info)
	w.NotContains(r.Blocks(stats.Lines)[0].Info, "socket")
	p.Close()
	p.SetSocket(1, s) // and does nothing
	w.Empty(r.Blocks(stats.Feeds))
	w.Empty(r.Blocks(stats.Lines))
	w.EqualValues(5, r.Closed(stats.Feeds).Totals["delivered_messages"])
	p.Store(c) // and does nothing
	p.Close()
}

// Feeds and lines beyond the file's room are counted.
func TestFeedsBeyondTheFile(t *testing.T) {
	w, r := published(t, conf.RingEpoll)
	c := twoLines(t)
	for range 40 {
		w.engine.PublishFeed("one of many", "A", "B").Store(c)
	}
	w.Len(r.Blocks(stats.Feeds), 32)
	w.EqualValues(8, r.Unpublished(stats.Feeds))
	w.Len(r.Blocks(stats.Lines), 96)
	w.EqualValues(24, r.Unpublished(stats.Lines))
}

// An engine that is closed closes its feeds: what is stored afterwards goes nowhere.
func TestFeedOfAClosedEngine(t *testing.T) {
	s := conf.Default()
	s.StatsDirectory = filepath.Join(t.TempDir(), "stats")
	e, err := xtreme.New(s)
	require.NoError(t, err)
	c, p := twoLines(t), e.PublishFeed("itch", "A", "B")
	require.NoError(t, e.Close())
	p.Store(c) // the file is unmapped
	e.PublishFeed("after", "A").Store(c)
	list, err := stats.List(s.StatsDirectory)
	require.NoError(t, err)
	r, err := stats.Open(list[0].Path)
	require.NoError(t, err)
	defer r.Close()
	require.Empty(t, r.Blocks(stats.Feeds))
}
