package live

import (
	"path/filepath"
	"slices"
	"strings"
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

// What is lost has a reason in the list, with a rate: whatever counter it is that moves, of the process or of the kernel.
func TestWhatIsLostHasAReason(t *testing.T) {
	n := 0
	for _, section := range stats.Sections() {
		for _, row := range section.Counters {
			if row.Name == "" || row.Type != stats.Total {
				continue
			}
			names := []string{section.Name + "." + row.Name}
			if of, _, _ := strings.Cut(row.Name, "."); section.Name == stats.Host && !slices.Contains([]string{"ip", "icmp", "udp", "tcp", "softnet"}, of) {
				names = []string{"host.v0." + row.Name, "driver." + row.Name} // of a link samples have both
			}
			var samples []stats.Sample
			for i := range 4 {
				values := map[string]uint64{}
				for _, name := range names {
					values[name] = uint64(1000 + 7*min(i, 2))
				}
				samples = append(samples, stats.Sample{Time: time.Unix(int64(i), 0), Interval: time.Second, Values: values})
			}
			m := &Model{}
			m.losses(samples[:3])
			if m.Lost.Last() == 0 {
				continue
			}
			n++
			require.NotEmpty(t, m.Drops, "%v: %v a second lost", names, m.Lost)
			require.Positive(t, m.Drops[0].Rate, "%v", names)
			require.Positive(t, m.Drops[0].Total, "%v", names)
			total := m.Drops[0].Total
			m.losses(samples)
			require.Equal(t, total, m.Drops[0].Total, "%v: nothing more was lost", names)
		}
	}
	require.Greater(t, n, 40)
}

// What the kernel has dropped stays in the list when its samples are gone.
func TestTheKernelsLossesStayInTheList(t *testing.T) {
	var samples []stats.Sample
	m, n := &Model{}, uint64(0)
	for i := range 200 {
		if i == 3 || i == 150 {
			n += 7
		}
		samples = append(samples, stats.Sample{Time: time.Unix(int64(i), 0), Interval: time.Second, Values: map[string]uint64{"host.ip.InNoRoutes": n}})
		m.losses(samples[max(0, len(samples)-50):])
	}
	require.Len(t, m.Drops, 1)
	require.Equal(t, []Count{{Name: "ip.InNoRoutes", Total: 14, Rate: m.Drops[0].Rate}}, m.Drops)
}
