package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/socketxtreme/socketxtreme/stats"
)

const namespace = "socketxtreme"

// maxSeries bounds what one scrape returns. Names of drivers' and the kernel's counters beyond it are left out and counted.
const maxSeries = 2000

// Collector is a prometheus.Collector over the statistics file of one process. Any goroutine.
type Collector struct {
	reader                                    *stats.Reader
	fixed                                     map[string]*prometheus.Desc // of counters with a row in the table, by section and name
	drops                                     *prometheus.Desc
	named                                     map[string]*prometheus.Desc // by section
	gaps, states                              *prometheus.Desc
	info, live, started, unpublished, leftOut *prometheus.Desc

	mu     sync.Mutex
	closed map[string]map[counterKey]uint64 // by section: what named counters of blocks had that are closed
	last   map[string]map[blockKey]map[counterKey]uint64
	most   map[string]uint64 // of totals: the last value, below which none goes
}

// blockKey is one use of a block's place, counterKey a named counter without the queue.
type (
	blockKey struct {
		index  int
		opened int64
	}
	counterKey struct{ iface, name string }
)

// New makes a collector over the file that a reader has open. The reader must stay open as long as the collector is registered.
func New(r *stats.Reader) *Collector {
	c := &Collector{reader: r, fixed: map[string]*prometheus.Desc{}, named: map[string]*prometheus.Desc{},
		closed: map[string]map[counterKey]uint64{}, last: map[string]map[blockKey]map[counterKey]uint64{}, most: map[string]uint64{}}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
	}
	for _, s := range stats.Sections() {
		switch s.Name {
		case stats.Drops:
			c.drops = desc("drops_total", "Frames that offloaded rings dropped, by reason.", "reason")
			continue
		case stats.Drivers:
			c.named[s.Name] = desc("driver_total", "Counts of offloaded rings' drivers, their stack and links, by name.", "interface", "counter")
			continue
		case stats.Host:
			c.named[s.Name] = desc("host", "What the kernel counts on the way to the rings, and of the process, by name.", "interface", "counter")
			continue
		}
		for _, row := range s.Counters {
			if row.Name == "" || isBucket(row.Name) || s.Name == stats.Pollers && isBufferState(row.Name) || row.Type == stats.Peak && s.Name == stats.Sockets {
				continue
			}
			labels := labelsOf[s.Name]
			if s.Name == stats.Pollers && row.Type == stats.Total {
				labels = nil
			}
			c.fixed[s.Name+"."+row.Name] = desc(metricName(s.Name, &row), sentence(row.Help), labels...)
		}
	}
	c.gaps = desc("poller_gap_seconds", "Gaps of more than 100 µs between two polls without a sleep.")
	c.states = desc("poller_buffers_in_state", "Buffers of all pollers, by state.", "state")
	c.info = desc("process_info", "The process that the counters are of.", "program", "version")
	c.live = desc("process_up", "1 while the process runs.")
	c.started = desc("process_start_time_seconds", "When the process made its statistics file, in Unix time.")
	c.unpublished = desc("sockets_unpublished_total", "Sockets that found no room in the file: only rings count for them.")
	c.leftOut = desc("series_left_out", "Named counters that one scrape has left out: there were too many.")
	return c
}

// labelsOf are the labels of sections whose blocks have series of their own; of pollers their gauges and peaks have.
var labelsOf = map[string][]string{stats.Pollers: {"poller"}, stats.Feeds: {"feed"}, stats.Lines: {"feed", "line"}}

// metricName is the name of a counter of the table: base units, _total for what only grows.
func metricName(section string, row *stats.Counter) string {
	name := section + "_" + row.Name
	if row.Unit == "ns" {
		name = strings.TrimSuffix(name, "_time") + "_seconds"
	}
	switch row.Type {
	case stats.Total:
		name += "_total"
	case stats.Peak:
		name = strings.TrimSuffix(name, "_peak") + "_peak"
	}
	return name
}

// sentence makes a help text one.
func sentence(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// isBucket reports whether a counter is a bucket of the histogram of gaps, or what that has too.
func isBucket(name string) bool {
	return strings.HasPrefix(name, "gaps_") || name == "poll_gaps" || name == "poll_gap_time"
}

// Describe sends all descriptions.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.fixed {
		to <- d
	}
	for _, d := range c.named {
		to <- d
	}
	for _, d := range []*prometheus.Desc{c.drops, c.gaps, c.states, c.info, c.live, c.started, c.unpublished, c.leftOut} {
		to <- d
	}
}

// Collect reads the file.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	send := func(m prometheus.Metric) {
		to <- m
		n++
	}
	p, err := c.reader.Process()
	if err != nil {
		to <- prometheus.NewInvalidMetric(c.live, err)
		return
	}
	send(prometheus.MustNewConstMetric(c.info, prometheus.GaugeValue, 1, p.Program, p.Version))
	send(prometheus.MustNewConstMetric(c.live, prometheus.GaugeValue, flag(p.Live)))
	send(prometheus.MustNewConstMetric(c.started, prometheus.GaugeValue, float64(p.Started.UnixNano())/1e9))
	send(prometheus.MustNewConstMetric(c.unpublished, prometheus.CounterValue, float64(c.reader.Unpublished(stats.Sockets))))
	for _, s := range stats.Sections() {
		switch {
		case c.named[s.Name] != nil:
		case s.Name == stats.Feeds || s.Name == stats.Lines:
			c.sendBlocks(&s, send)
		case s.Name == stats.Drops:
			for name, v := range c.totals(&s) {
				send(prometheus.MustNewConstMetric(c.drops, prometheus.CounterValue, float64(v), name))
			}
		default:
			c.sendTable(&s, send)
		}
	}
	left := 0
	for _, section := range []string{stats.Drivers, stats.Host} {
		kind := prometheus.CounterValue
		if section == stats.Host {
			kind = prometheus.UntypedValue // gauges are among them
		}
		values := c.namedTotals(section)
		for _, key := range inOrder(section, values) {
			if n >= maxSeries-1 {
				left++
				continue
			}
			send(prometheus.MustNewConstMetric(c.named[section], kind, float64(values[key]), key.iface, key.name))
		}
	}
	send(prometheus.MustNewConstMetric(c.leftOut, prometheus.GaugeValue, float64(left)))
}

// inOrder are the keys of named counters as they are sent: those that count a loss first, then by name and interface. Each scrape has the same
// order, so that each leaves the same series out when there are too many.
func inOrder(section string, values map[counterKey]uint64) []counterKey {
	table, rank := stats.SectionOf(section), map[counterKey]int{}
	for key := range values {
		if row := table.Find(key.name); row == nil || !row.Loss {
			rank[key] = 1
		}
	}
	return slices.SortedFunc(maps.Keys(values), func(a, b counterKey) int {
		return cmp.Or(cmp.Compare(rank[a], rank[b]), strings.Compare(a.name, b.name), strings.Compare(a.iface, b.iface))
	})
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// sendTable sends the counters of a section of the table. Totals and gauges are sums over the section's blocks, peaks are the largest of the
// last minute. Gauges and peaks of pollers have a series for each name of a poller, and their peaks are of the last two seconds.
func (c *Collector) sendTable(s *stats.Section, send func(prometheus.Metric)) {
	totals := c.totals(s)
	blocks := c.reader.Blocks(s.Name)
	var peaks map[string]uint64
	for i := range s.Counters {
		row := &s.Counters[i]
		d := c.fixed[s.Name+"."+row.Name]
		switch {
		case d == nil:
		case row.Type == stats.Total:
			send(prometheus.MustNewConstMetric(d, prometheus.CounterValue, base(row, totals[row.Name])))
		case s.Name == stats.Pollers:
			sums := map[string]uint64{}
			for j := range blocks {
				if name := blocks[j].Info["name"]; row.Type == stats.Peak {
					sums[name] = max(sums[name], blocks[j].Totals[row.Name])
				} else {
					sums[name] += blocks[j].Totals[row.Name]
				}
			}
			for name, v := range sums {
				send(prometheus.MustNewConstMetric(d, prometheus.GaugeValue, base(row, v), name))
			}
		case row.Type == stats.Peak:
			if peaks == nil {
				peaks = c.peaks()
			}
			send(prometheus.MustNewConstMetric(d, prometheus.GaugeValue, base(row, peaks[s.Name+"."+row.Name])))
		default:
			sum := uint64(0)
			for j := range blocks {
				sum += blocks[j].Totals[row.Name]
			}
			send(prometheus.MustNewConstMetric(d, prometheus.GaugeValue, base(row, sum)))
		}
	}
	if s.Name == stats.Pollers {
		c.sendGaps(totals, send)
		c.sendStates(blocks, send)
	}
}

// isBufferState reports whether a counter of a poller is the number of its buffers in a state: a series for each state, not for each poller.
func isBufferState(name string) bool {
	state, found := strings.CutPrefix(name, "buffers_")
	return found && slices.Contains(stats.BufferStates, state)
}

// sendStates sends how many buffers are in each state.
func (c *Collector) sendStates(pollers []stats.View, send func(prometheus.Metric)) {
	for _, state := range stats.BufferStates {
		sum := uint64(0)
		for i := range pollers {
			sum += pollers[i].Totals["buffers_"+state]
		}
		send(prometheus.MustNewConstMetric(c.states, prometheus.GaugeValue, float64(sum), state))
	}
}

// base is a value in its base unit.
func base(row *stats.Counter, v uint64) float64 {
	if row.Unit == "ns" {
		return float64(v) / 1e9
	}
	return float64(v)
}

// gapBuckets are the counters of gaps below a length, in seconds.
var gapBuckets = []struct {
	name  string
	below float64
}{{"gaps_below_200us", 200e-6}, {"gaps_below_500us", 500e-6}, {"gaps_below_1ms", 1e-3}, {"gaps_below_2ms", 2e-3}, {"gaps_below_5ms", 5e-3},
	{"gaps_below_10ms", 10e-3}, {"gaps_below_100ms", 100e-3}}

// sendGaps sends the histogram of gaps between polls.
func (c *Collector) sendGaps(totals map[string]uint64, send func(prometheus.Metric)) {
	buckets, sum := map[float64]uint64{}, uint64(0)
	for _, b := range gapBuckets {
		sum += totals[b.name]
		buckets[b.below] = sum
	}
	send(prometheus.MustNewConstHistogram(c.gaps, sum+totals["gaps_longer"], float64(totals["poll_gap_time"])/1e9, buckets))
}
