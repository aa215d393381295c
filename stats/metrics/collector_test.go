package metrics_test

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/stats"
	"github.com/socketxtreme/socketxtreme/stats/metrics"
)

// world is a statistics file that the test writes, with a collector over it.
type world struct {
	*require.Assertions
	file      *stats.File
	registry  *prometheus.Registry
	collector *metrics.Collector
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{Assertions: require.New(t), registry: prometheus.NewPedanticRegistry()}
	var err error
	w.file, err = stats.Create(stats.Config{Directory: filepath.Join(t.TempDir(), "stats"), Sockets: 1024})
	w.NoError(err)
	r, err := stats.Open(w.file.Path())
	w.NoError(err)
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		require.NoError(t, w.file.Close())
	})
	w.collector = metrics.New(r)
	w.NoError(w.registry.Register(w.collector))
	return w
}

// value is that of the series of a metric with labels.
func (w *world) value(name string, labels ...string) float64 {
	list, err := w.registry.Gather()
	w.NoError(err)
	for _, f := range list {
		if f.GetName() != name {
			continue
		}
	series:
		for _, m := range f.Metric {
			for i := 0; i < len(labels); i += 2 {
				found := false
				for _, l := range m.Label {
					found = found || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
				}
				if !found {
					continue series
				}
			}
			switch {
			case m.Counter != nil:
				return m.Counter.GetValue()
			case m.Gauge != nil:
				return m.Gauge.GetValue()
			case m.Untyped != nil:
				return m.Untyped.GetValue()
			case m.Histogram != nil:
				return float64(m.Histogram.GetSampleCount())
			}
		}
	}
	w.Fail("no series", "%s %v", name, labels)
	return 0
}

// word is where a counter of the table lies in a block.
func word(section, name string) int {
	s, at := stats.SectionOf(section), 0
	for i := range s.Counters {
		if s.Counters[i].Name == name {
			return at
		}
		at += s.Counters[i].Words()
	}
	panic(name)
}

// Values are those of the file, summed over blocks; what is closed stays in the sums, and a baseline changes nothing.
func TestValues(t *testing.T) {
	w := newWorld(t)
	p := w.file.Open(stats.Pollers, nil, 0)
	p.SetInfo("name=main\n")
	p.Counters()[word(stats.Pollers, "buffers")] = 4096
	p.Counters()[word(stats.Pollers, "buffers_held")] = 17
	p.Counters()[word(stats.Pollers, "poll_gaps")] = 3
	p.Counters()[word(stats.Pollers, "poll_gap_time")] = 1500e6
	p.Counters()[word(stats.Pollers, "gaps_below_1ms")] = 2
	p.Counters()[word(stats.Pollers, "gaps_longer")] = 1
	a, b := w.file.Open(stats.Rings, p, 5), w.file.Open(stats.Rings, p, 6)
	a.Counters()[word(stats.Rings, "packets")], b.Counters()[word(stats.Rings, "packets")] = 40, 2
	d := w.file.Open(stats.Drops, p, 0)
	d.Counters()[word(stats.Drops, "udp.budget")] = 37
	x := w.file.Open(stats.Drivers, p, 5)
	x.SetNamed(0, "eth0/0.rx_frames", 10)
	x.SetNamed(1, "eth0/1.rx_frames", 5)
	x.SetNamed(2, "stack.lost", 1)
	x.SetCount(3)
	w.Equal(42.0, w.value("socketxtreme_ring_packets_total"))
	w.Equal(37.0, w.value("socketxtreme_drops_total", "reason", "udp.budget"))
	w.Equal(0.0, w.value("socketxtreme_drops_total", "reason", "udp.sum"))
	w.Equal(4096.0, w.value("socketxtreme_poller_buffers", "poller", "main"))
	w.Equal(17.0, w.value("socketxtreme_poller_buffers_in_state", "state", "held"))
	w.Equal(3.0, w.value("socketxtreme_poller_gap_seconds"))
	w.Equal(15.0, w.value("socketxtreme_driver_total", "interface", "eth0", "counter", "rx_frames"))
	w.Equal(1.0, w.value("socketxtreme_driver_total", "interface", "", "counter", "stack.lost"))
	w.Equal(1.0, w.value("socketxtreme_process_up"))
	a.Close()
	x.Close()
	w.file.Zero(stats.ZeroRequest{})
	w.Equal(42.0, w.value("socketxtreme_ring_packets_total"))
	w.Equal(15.0, w.value("socketxtreme_driver_total", "interface", "eth0", "counter", "rx_frames"))
	x = w.file.Open(stats.Drivers, p, 5) // another ring at its place
	x.SetNamed(0, "eth0/0.rx_frames", 3)
	x.SetCount(1)
	w.Equal(18.0, w.value("socketxtreme_driver_total", "interface", "eth0", "counter", "rx_frames"))
}

// Each reason for drops is a series with its own value, and each loss of a driver one for its interface.
func TestEveryLossIsASeries(t *testing.T) {
	w := newWorld(t)
	p := w.file.Open(stats.Pollers, nil, 0)
	drops, driver := w.file.Open(stats.Drops, p, 0), w.file.Open(stats.Drivers, p, 9)
	value, reasons, losses := uint64(70_000), map[string]uint64{}, map[string]uint64{}
	for i, row := range stats.SectionOf(stats.Drops).Counters { // no peaks
		if row.Name != "" {
			value++
			drops.Counters()[i], reasons[row.Name] = value, value
		}
	}
	for _, row := range stats.SectionOf(stats.Drivers).Counters {
		if row.Loss {
			value++
			driver.SetNamed(len(losses), "eth0/1."+row.Name, value)
			losses[row.Name] = value
		}
	}
	driver.SetCount(len(losses))
	w.Greater(len(reasons), 30)
	w.Greater(len(losses), 10)
	for name, v := range reasons {
		w.EqualValues(v, w.value("socketxtreme_drops_total", "reason", name), name)
	}
	for name, v := range losses {
		w.EqualValues(v, w.value("socketxtreme_driver_total", "interface", "eth0", "counter", name), name)
	}
}

// The linter of Prometheus finds nothing: names, units, types, help.
func TestPromlint(t *testing.T) {
	w := newWorld(t)
	w.fill()
	f := w.file.Open(stats.Feeds, nil, 0)
	f.SetInfo("feed=itch\n")
	f.Counters()[word(stats.Feeds, "delivered_messages")] = 7
	for i, line := range []string{"A", "B", "B"} {
		b := w.file.Open(stats.Lines, f, uint64(i))
		b.SetInfo("feed=itch\nline=" + line + "\n")
		b.Counters()[word(stats.Lines, "gaps")], b.Counters()[word(stats.Lines, "last_sequence")] = uint64(i+1), 100
	}
	problems, err := testutil.GatherAndLint(w.registry)
	w.NoError(err)
	w.Empty(problems)
	w.Equal(7.0, w.value("socketxtreme_feed_delivered_messages_total", "feed", "itch"))
	w.Equal(1.0, w.value("socketxtreme_feed_line_gaps_total", "feed", "itch", "line", "A"))
	w.Equal(5.0, w.value("socketxtreme_feed_line_gaps_total", "feed", "itch", "line", "B"))
	w.Equal(100.0, w.value("socketxtreme_feed_line_last_sequence", "feed", "itch", "line", "A"))
}

// fill makes the file as large as it gets: 100,000 sockets, of which 1,024 have room, on many rings of many queues.
func (w *world) fill() {
	for i := range 32 {
		p := w.file.Open(stats.Pollers, nil, 0)
		p.SetInfo("name=poller " + strconv.Itoa(i) + "\n")
		r := w.file.Open(stats.Rings, p, uint64(i))
		x := w.file.Open(stats.Drivers, p, uint64(i))
		for j := range 256 {
			x.SetNamed(j, "eth"+strconv.Itoa(i)+"/"+strconv.Itoa(j%8)+".count_"+strconv.Itoa(j), 1)
		}
		x.SetCount(256)
		for j := range 100000 / 32 {
			if i*100000/32+j < 1024 {
				w.file.Open(stats.Sockets, r, uint64(j))
			} else {
				w.file.CountUnpublished(stats.Sockets)
			}
		}
	}
}

// There are at most 2,000 series with 100,000 sockets, and what was left out is counted.
func TestSeriesAreBounded(t *testing.T) {
	w := newWorld(t)
	few := testutil.CollectAndCount(w.collector)
	w.fill()
	for i := range 32 {
		w.file.Open(stats.Feeds, nil, 0).SetInfo("feed=" + strconv.Itoa(i) + "\n")
		for j := range 3 {
			w.file.Open(stats.Lines, nil, 0).SetInfo("feed=" + strconv.Itoa(i) + "\nline=" + strconv.Itoa(j) + "\n")
		}
	}
	w.LessOrEqual(testutil.CollectAndCount(w.collector), 2000)
	w.Less(few, 500)
	w.Positive(w.value("socketxtreme_series_left_out"))
	w.Equal(100000.0-1024, w.value("socketxtreme_sockets_unpublished_total")+float64(100000%32)) // as many as fill made
}

// When there are too many series, none of them that counts a loss is left out.
func TestLossesAreNotLeftOut(t *testing.T) {
	w := newWorld(t)
	w.fill()
	x := w.file.Open(stats.Drivers, w.file.Open(stats.Pollers, nil, 0), 99)
	x.SetNamed(0, "zz9/0.xdp.rx_ring_full", 4)
	x.SetCount(1)
	w.Positive(w.value("socketxtreme_series_left_out"))
	w.Equal(4.0, w.value("socketxtreme_driver_total", "interface", "zz9", "counter", "xdp.rx_ring_full"))
}

// What one scrape leaves out the next one leaves out, too: a series that comes and goes has gaps in its graph, and its rate is wrong after each.
func TestScrapesLeaveOutTheSame(t *testing.T) {
	w := newWorld(t)
	w.fill()
	names := func() (list []string) {
		families, err := w.registry.Gather()
		w.NoError(err)
		for _, f := range families {
			for _, m := range f.Metric {
				name := f.GetName()
				for _, l := range m.Label {
					name += " " + l.GetName() + "=" + l.GetValue()
				}
				list = append(list, name)
			}
		}
		return list
	}
	first := names()
	w.Positive(w.value("socketxtreme_series_left_out"))
	for range 5 {
		w.Equal(first, names())
	}
}
