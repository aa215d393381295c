package live

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/stats"
)

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
	line := f.Open(stats.Lines, nil, 1)
	line.SetInfo("feed=itch\nline=A@eth0\n")
	m, now := &Model{}, time.Now()
	require.NoError(t, m.Update(r, now))
	require.Zero(t, m.Sockets[0].Packets)
	b.Counters()[at] = 500
	line.Counters()[0] = 80 // segments
	for range 60 {
		f.Note(stats.EventPollGap, nil, 1, "main")
	}
	f.Note(stats.EventJoin, nil, 1, "239.1.2.3")
	require.NoError(t, m.Update(r, now.Add(2*time.Second)))
	require.Equal(t, 250.0, m.Sockets[0].Packets)
	require.Equal(t, []FeedLine{{Feed: "itch", Line: "A@eth0", Rate: 40, Packets: 80}}, m.Lines)
	require.Equal(t, "10.0.0.1:5000", m.Sockets[0].Local)
	require.Equal(t, "239.1.2.3", m.Events[len(m.Events)-1].Text)
	for _, e := range m.Events {
		require.NotEqual(t, "poll_gap", e.Kind)
	}
	b.Close()
	require.NoError(t, m.Update(r, now.Add(3*time.Second)))
	require.Empty(t, m.Sockets)
}

// A lost packet that two counters have is one in the sum of what is lost, and what the kernel has dropped is in it.
func TestLostAreCountedOnce(t *testing.T) {
	var samples []stats.Sample
	for i, x := range []struct{ budget, drops, missing uint64 }{{}, {132, 0, 0}, {132, 132, 0}, {132, 132, 143}, {132, 132, 143}} {
		n := uint64(10_000 * i)
		samples = append(samples, stats.Sample{Time: time.Unix(int64(i), 0), Interval: time.Second, Values: map[string]uint64{"drop.udp.budget": x.budget,
			"socket.drops": x.drops, "host.ip.InReceives": n, "host.ip.InDelivers": n - x.missing, "host.ip.InMcastPkts": n}})
	}
	m := &Model{}
	m.losses(samples)
	require.Equal(t, Series{132, 0, 143, 0}, m.Lost)
}
