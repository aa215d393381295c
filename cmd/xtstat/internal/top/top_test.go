package top

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/stats"
)

// made is a model with something of everything.
func made() *Model {
	start := time.Date(2026, 1, 2, 9, 29, 0, 0, time.UTC)
	m := &Model{Process: stats.Process{ID: 4711, Program: "feed", Live: true, Started: start}, At: start.Add(time.Minute),
		RxPackets: Series{0, 10, 20, 12300}, RxBytes: Series{1, 2, 3, 1e6}, TxPackets: Series{1}, TxBytes: Series{1}, Polls: Series{100, 100, 100, 200},
		Hits: Series{0, 50, 100, 50}, Lost: Series{0, 0, 0, 37}, Gap: Series{0, 0, 0, 2.5e6}, Batch: Series{1, 64}, Queue: Series{0, 3},
		Gaps: []Count{{"< 200 µs", 10, 5}, {"longer", 1, 0.1}}, Drops: []Count{{"udp.budget", 37, 0.6}, {"udp.sum", 2, 0}},
		Pools: []Pool{{"main", 4000, 4096}}, Unpublished: 7}
	for i := range 30 {
		m.Sockets = append(m.Sockets, Socket{View: stats.View{ID: uint64(i), Info: map[string]string{"protocol": "udp"}}, Packets: float64(i % 7), Drops: uint64(i % 3),
			Protocol: "udp", Local: "10.0.0.1:5000"})
	}
	for range 9 {
		m.Events = append(m.Events, stats.Event{Time: start, Kind: "feed_gap", Count: 3, Text: "line A: 5 to 7"})
	}
	return m
}

// The screen fits every size, and has what the model has.
func TestRenderFits(t *testing.T) {
	m := made()
	for _, v := range []View{{Order: ByPackets}, {Help: true}, {Inside: true, Selected: 3}, {Selected: 29}} {
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
	for _, l := range Render(m, &View{Order: ByPackets}, 130, 45) {
		text = append(text, l.String())
	}
	all := strings.Join(text, "\n")
	for _, want := range []string{"feed 4711 running  up 1m0s  09:30:00", "12.3k/s", "25.0 %", "37/s", "2.5ms", "udp.budget", "4000 used, 96 free", "line A: 5 to 7",
		"7 sockets more", "8.0Mbit/s"} {
		require.Contains(t, all, want)
	}
}

func TestSpark(t *testing.T) {
	require.Equal(t, "  ▁▆█", Spark(Series{0, 0.1, 5, 8}, 5))
	require.Equal(t, "█▅", Spark(Series{1, 2, 8, 4}, 2))
	require.Equal(t, "   ", Spark(nil, 3))
}

// Keys sort, choose, look into a socket, stop and quit.
func TestKeys(t *testing.T) {
	m, v := made(), &View{Order: ByPackets}
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

// The model has what the file has: rates of sockets between two updates.
func TestUpdate(t *testing.T) {
	f, err := stats.Create(stats.Config{Directory: filepath.Join(t.TempDir(), "stats"), Sockets: 4})
	require.NoError(t, err)
	defer f.Close()
	r, err := stats.Open(f.Path())
	require.NoError(t, err)
	defer r.Close()
	b := f.Open(stats.Sockets, nil, 12)
	b.SetInfo("protocol=udp\nlocal=10.0.0.1:5000\n")
	at := 0
	for _, row := range stats.SectionOf(stats.Sockets).Counters {
		if row.Name == "packets" {
			break
		}
		at += row.Words()
	}
	m, now := &Model{}, time.Now()
	require.NoError(t, m.Update(r, now))
	require.Zero(t, m.Sockets[0].Packets)
	b.Counters()[at] = 500
	for range 60 {
		f.Note(stats.EventPollGap, nil, 1, "main")
	}
	f.Note(stats.EventJoin, nil, 1, "239.1.2.3")
	require.NoError(t, m.Update(r, now.Add(2*time.Second)))
	require.Equal(t, 250.0, m.Sockets[0].Packets)
	require.Equal(t, "10.0.0.1:5000", m.Sockets[0].Local)
	require.Equal(t, "239.1.2.3", m.Events[len(m.Events)-1].Text)
	for _, e := range m.Events {
		require.NotEqual(t, "poll_gap", e.Kind)
	}
	b.Close()
	require.NoError(t, m.Update(r, now.Add(3*time.Second)))
	require.Empty(t, m.Sockets)
}
