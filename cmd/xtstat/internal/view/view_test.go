package view

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/stats"
)

var update = flag.Bool("update", false, "write the golden views anew")

var start = time.Date(2030, 1, 2, 9, 30, 0, 0, time.UTC)

// block is a block with some values; the other counters of its section are 0.
func block(section string, index, parent int, id uint64, info map[string]string, values map[string]uint64) stats.View {
	v := stats.View{Section: section, Index: index, Parent: parent, ID: id, Opened: start, Info: info, Totals: map[string]uint64{}}
	for _, c := range stats.SectionOf(section).Counters {
		if c.Name != "" {
			v.Names = append(v.Names, c.Name)
			v.Totals[c.Name] = values[c.Name]
		}
	}
	return v
}

// snapshot is a program with an echo over the library's stack, a listener of the kernel's with a connection, and a feed that lost something.
func snapshot() *Snapshot {
	return &Snapshot{
		Process: stats.Process{ID: 4711, Program: "echo", Command: []string{"echo"}, Live: true, Started: start},
		Time:    start.Add(10 * time.Second),
		Left:    map[string]uint64{},
		Blocks: map[string][]stats.View{
			stats.Pollers: {block(stats.Pollers, 1, 0, 0, map[string]string{"name": "feed"}, map[string]uint64{"buffers": 4352, "buffers_used": 52,
				"buffers_free": 3788, "buffers_filling": 512, "buffers_held": 50, "buffers_transmitting": 2,
				"no_buffer": 3, "measures_sleep": 1, "sleep_time": 2_500_000_000, "poll_gaps": 2})},
			stats.Rings: {
				block(stats.Rings, 1, 1, 5, map[string]string{"kind": "uring"}, map[string]uint64{"polls": 1000, "hits": 250, "completions": 300, "packets": 200,
					"bytes": 20480, "sent_messages": 100, "sent_bytes": 10240, "sleeps": 4, "batch": 16, "accepted": 1}),
				block(stats.Rings, 2, 1, 9, map[string]string{"kind": "offload"}, map[string]uint64{"polls": 400_000_000, "hits": 140_479_898, "completions": 140_479_898,
					"packets": 140_479_898, "bytes": 280_959_796, "sent_messages": 140_479_902, "sent_bytes": 281_090_048, "batch": 32, "queue": 7}),
			},
			stats.Drops: {block(stats.Drops, 1, 1, 9, nil, map[string]uint64{"udp.budget": 37, "eth.not_ours": 5})},
			stats.Drivers: {{Section: stats.Drivers, Index: 1, Parent: 1, Names: []string{"eth0.rx_lost", "eth0.xdp.rx_ring_full", "stack.delivered"},
				Totals: map[string]uint64{"eth0.rx_lost": 4, "eth0.xdp.rx_ring_full": 4, "stack.delivered": 140_479_898}}},
			stats.Sockets: {
				block(stats.Sockets, 1, 2, 14, map[string]string{"protocol": "udp", "local": "233.215.21.4:10378", "state": "open", "mc_loop": "true",
					"groups": "233.215.21.4,233.215.21.5<10.0.0.9", "path": "bypass xdp eth0/0", "ring_logic": "per interface", "inode": "16704"},
					map[string]uint64{"offloaded": 1, "packets": 140_479_900, "bytes": 280_961_844, "kernel_packets": 2, "kernel_bytes": 2048,
						"sent_messages": 140_479_902, "sent_bytes": 281_090_048, "drops": 37, "queued_packets": 3, "queued_bytes": 360, "queued_packets_max": 97, "queued_bytes_max": 11640,
						"held_bytes": 4096, "warm_sends": 5}),
				block(stats.Sockets, 2, 1, 15, map[string]string{"protocol": "tcp", "local": "0.0.0.0:6379", "state": "listening", "inode": "16705"}, nil),
				block(stats.Sockets, 3, 1, 16, map[string]string{"protocol": "tcp", "local": "10.0.0.1:6379", "remote": "10.0.0.2:41230", "state": "open",
					"inode": "16706", "path": "kernel uring"}, map[string]uint64{"packets": 200, "bytes": 20480, "sent_messages": 100, "sent_bytes": 10240,
					"short_sends": 2, "send_errors": 1, "retransmits": 7}),
			},
		},
	}
}

// later is snapshot after two more seconds, in which twice as much came as before.
func later() *Snapshot {
	s := snapshot()
	s.Time = s.Time.Add(2 * time.Second)
	for section, list := range s.Blocks {
		for i := range list {
			for name, n := range list[i].Totals {
				if row := stats.SectionOf(section).Find(name); row.Type == stats.Total {
					list[i].Totals[name] = 3 * n
				}
			}
		}
	}
	return s
}

func golden(t *testing.T, name string, got []byte) {
	path := filepath.Join("testdata", name+".txt")
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), name)
}

// The columns are vma_stats': its formats, with numbers of its manual's example. View 3 has no threads and
// migrations of a socket, nor the dropped bytes of its queue and a limit of its packets, and has lines that VMA lacks.
func TestGoldenViews(t *testing.T) {
	for name, s := range map[string]*Snapshot{"totals": snapshot(), "deltas": later().Rates(snapshot())} {
		var b bytes.Buffer
		(&Lines{W: &b}).Print(s)
		golden(t, "1-"+name, b.Bytes())
		b.Reset()
		(&Lines{W: &b, Queues: true}).Print(s)
		golden(t, "2-"+name, b.Bytes())
		b.Reset()
		Full(&b, s)
		golden(t, "3-"+name, b.Bytes())
	}
	var b bytes.Buffer
	Groups(&b, snapshot())
	golden(t, "4", b.Bytes())
	b.Reset()
	NetstatHeader(&b)
	Netstat(&b, snapshot())
	golden(t, "5", b.Bytes())
}

func TestDeltasAreRates(t *testing.T) {
	r := later().Rates(snapshot())
	s := r.Blocks[stats.Sockets][0]
	require.EqualValues(t, 140_479_900, s.Value("packets"), "twice as much in two seconds")
	require.EqualValues(t, 360, s.Value("queued_bytes"), "a gauge is no rate")
	require.EqualValues(t, 37, s.Value("drops"))
	require.EqualValues(t, 4, r.Blocks[stats.Drivers][0].Value("eth0.rx_lost"))

	fresh := later()
	fresh.Blocks[stats.Sockets][0].Opened = start.Add(11 * time.Second)
	s = fresh.Rates(snapshot()).Blocks[stats.Sockets][0]
	require.EqualValues(t, (3*140_479_900)/2, s.Value("packets"), "another socket in the same place began at zero")
}

// The share of time that a process has polled which has ended is that of its life, whenever it is looked at.
func TestPollingOfAnEndedProcess(t *testing.T) {
	s := snapshot()
	require.Equal(t, "75%", pollingOf(s, &s.Blocks[stats.Pollers][0]).cpu)
	s.Process.Live, s.Process.Last = false, s.Time
	s.Time = s.Time.Add(time.Hour)
	require.Equal(t, "75%", pollingOf(s, &s.Blocks[stats.Pollers][0]).cpu)
}

func TestHeaderComesAgain(t *testing.T) {
	var b bytes.Buffer
	l := &Lines{W: &b}
	for range 9 {
		l.Print(snapshot())
	}
	require.Equal(t, 3, bytes.Count(b.Bytes(), []byte("total offloaded")), "%s", b.String())
}

func TestJSONHasEachViewsSections(t *testing.T) {
	for v := 1; v <= 5; v++ {
		var b bytes.Buffer
		require.NoError(t, JSON(&b, snapshot(), v))
		require.Equal(t, 1, bytes.Count(b.Bytes(), []byte("\n")), "a line for each cycle")
		var x struct {
			Blocks map[string][]struct{ Values map[string]uint64 }
		}
		require.NoError(t, json.Unmarshal(b.Bytes(), &x))
		require.Len(t, x.Blocks, len(sectionsOf[v]))
		require.EqualValues(t, 140_479_900, x.Blocks[stats.Sockets][0].Values["packets"])
	}
}

func TestListsAndRangesOfSockets(t *testing.T) {
	x, err := ParseSockets("4-6,1, 9,20-18")
	require.NoError(t, err)
	for id, want := range map[uint64]bool{0: false, 1: true, 3: false, 4: true, 6: true, 7: false, 9: true, 18: true, 19: true, 20: true, 21: false} {
		require.Equal(t, want, x.Has(id), id)
	}
	require.True(t, Sockets(nil).Has(5))
	for _, bad := range []string{"", "a", "1-", "-1", "1,,2", "1-2-3", "99999999999"} {
		_, err := ParseSockets(bad)
		require.Error(t, err, bad)
	}
}

// Between two blocks of view 3 there is one rule, also where a program has no pollers, rings or feeds.
func TestOneRuleBetweenBlocks(t *testing.T) {
	s := snapshot()
	for _, section := range []string{"", stats.Sockets, stats.Feeds, stats.Rings, stats.Pollers} {
		delete(s.Blocks, section)
		var b bytes.Buffer
		Full(&b, s)
		require.NotContains(t, b.String(), rule+rule, "without %s", section)
	}
}
