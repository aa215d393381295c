package top

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/cmd/xtstat/internal/live"
	"github.com/socketxtreme/socketxtreme/stats"
)

// made is a model with something of everything.
func made() *live.Model {
	start := time.Date(2026, 1, 2, 9, 29, 0, 0, time.UTC)
	m := &live.Model{Process: stats.Process{ID: 4711, Program: "feed", Live: true, Started: start}, At: start.Add(time.Minute),
		RxPackets: live.Series{0, 10, 20, 12300}, RxBytes: live.Series{1, 2, 3, 1e6}, TxPackets: live.Series{1}, TxBytes: live.Series{1},
		HitRatio: live.Series{0, 0.5, 1, 0.25}, Lost: live.Series{0, 0, 0, 37}, Gap: live.Series{0, 0, 0, 2.5e6}, Batch: live.Series{1, 64}, Queue: live.Series{0, 3},
		Gaps:  []live.Count{{Name: "< 200 µs", Total: 10, Rate: 5}, {Name: "longer", Total: 1, Rate: 0.1}},
		Drops: []live.Count{{Name: "udp.budget", Total: 37, Rate: 0.6}, {Name: "udp.sum", Total: 2}},
		Pools: []live.Pool{{Name: "main", Used: 4000, Total: 4096, States: []live.StateCount{{State: "free", Count: 96}, {State: "held", Count: 4000}}}}, Unpublished: 7,
		Lines: []live.FeedLine{{Feed: "itch", Line: "A@eth0", Rate: 1200, Packets: 70, First: 66, Duplicates: 4, Gaps: 2, Lost: 5, Recovered: 3, Last: 80077}}}
	for i := range 30 {
		m.Sockets = append(m.Sockets, live.Socket{View: stats.View{ID: uint64(i), Info: map[string]string{"protocol": "udp"}}, ID: uint64(i),
			Packets: float64(i % 7), Drops: uint64(i % 3), Protocol: "udp", Local: "10.0.0.1:5000"})
	}
	for range 9 {
		m.Events = append(m.Events, stats.Event{Time: start, Kind: "feed_gap", Count: 3, Text: "line A: 5 to 7"})
	}
	m.Events = append(m.Events, stats.Event{Time: start, Kind: "drop", Count: 37, Text: "drops", Of: "socket 3", About: "fd=3 10.0.0.1:5000"})
	return m
}

// The screen fits every size, and has what the model has.
func TestRenderFits(t *testing.T) {
	m := made()
	for _, v := range []View{{Order: live.ByPackets}, {Help: true}, {Inside: true, Selected: 3}, {Selected: 29}} {
		for _, size := range [][2]int{{1, 1}, {20, 5}, {80, 24}, {130, 45}, {300, 100}} {
			list := Render(m, &v, size[0], size[1])
			require.LessOrEqual(t, len(list), size[1])
			for _, l := range list {
				n := 0
				for _, s := range l {
					n += utf8.RuneCountInString(s.Text)
				}
				require.LessOrEqual(t, n, size[0], "%v", l)
			}
		}
	}
	var text []string
	for _, l := range Render(m, &View{Order: live.ByPackets}, 130, 45) {
		text = append(text, l.String())
	}
	all := strings.Join(text, "\n")
	for _, want := range []string{"feed 4711 running  up 1m0s  09:30:00", "12.3k/s", "25.0 %", "37/s", "2.5ms", "udp.budget", "4000 used of 4096", "free 96, held 4000", "line A: 5 to 7", "+37 drops (fd=3 10.0.0.1:5000)",
		"7 sockets more", "8.0Mbit/s",
		"itch         A@eth0                        1.2k          66         4      2        5         3        80077"} {
		require.Contains(t, all, want)
	}
}

func TestSpark(t *testing.T) {
	require.Equal(t, "  ▁▆█", Spark(live.Series{0, 0.1, 5, 8}, 5))
	require.Equal(t, "█▅", Spark(live.Series{1, 2, 8, 4}, 2))
	require.Equal(t, "   ", Spark(nil, 3))
}

// Keys sort, choose, look into a socket, stop and quit.
func TestKeys(t *testing.T) {
	m, v := made(), &View{Order: live.ByPackets}
	v.key('d', 30)
	m.Sort(v.Order)
	require.Equal(t, uint64(2), m.Sockets[0].Drops)
	v.key('j', 30)
	v.key('j', 30)
	v.key('k', 30)
	require.Equal(t, 1, v.Selected)
	v.key('\n', 30)
	require.True(t, v.Inside)
	v.key('\x1b', 30)
	require.False(t, v.Inside)
	v.key(' ', 30)
	require.True(t, v.Paused)
	for range 40 {
		v.key('j', 30)
	}
	require.Equal(t, 29, v.Selected)
	require.False(t, v.key('x', 30))
	require.True(t, v.key('q', 30))
}
