package metrics

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/socketxtreme/socketxtreme/feed"
)

// Feeds is a prometheus.Collector of feeds' statistics. The goroutine that owns a feed stores them now and then, once a second say; a scrape
// returns what was stored last.
type Feeds struct {
	mu    sync.Mutex
	names []string
	feeds map[string]*feedStats
}

type feedStats struct {
	channel feed.Stats
	lines   []feed.LineStats
}

// NewFeeds makes a collector without feeds.
func NewFeeds() *Feeds { return &Feeds{feeds: map[string]*feedStats{}} }

// Store keeps the statistics of a feed by its name. It copies them.
func (f *Feeds) Store(name string, channel feed.Stats, lines []feed.LineStats) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.feeds[name]
	if x == nil {
		x = &feedStats{}
		f.feeds[name] = x
		f.names = append(f.names, name)
	}
	x.channel, x.lines = channel, append(x.lines[:0], lines...)
}

// ofChannel and ofLine are what is counted of a feed and of each of its lines.
var (
	ofChannel = []struct {
		desc  *prometheus.Desc
		value func(*feed.Stats) uint64
	}{
		{feedDesc("delivered_messages_total", "Messages that the feed delivered."), func(s *feed.Stats) uint64 { return s.Delivered }},
		{feedDesc("recovered_messages_total", "Messages that came from the recovery server."), func(s *feed.Stats) uint64 { return s.Recovered }},
		{feedDesc("unrecovered_messages_total", "Messages that were given up."), func(s *feed.Stats) uint64 { return s.Unrecovered }},
		{feedDesc("gaps_total", "Gaps that opened."), func(s *feed.Stats) uint64 { return s.Gaps }},
		{feedDesc("filled_by_line_messages_total", "Messages of gaps that a line filled."), func(s *feed.Stats) uint64 { return s.FilledByLine }},
		{feedDesc("recovery_requests_total", "Requests to the recovery server."), func(s *feed.Stats) uint64 { return s.Requests }},
		{feedDesc("recovery_rejects_total", "Requests that the recovery server rejected."), func(s *feed.Stats) uint64 { return s.Rejects }},
		{feedDesc("overflows_total", "Gaps given up because what was parked no longer fitted."), func(s *feed.Stats) uint64 { return s.Overflows }},
	}
	openGaps = feedDesc("open_gaps", "Gaps that are open now.")
	ofLine   = []struct {
		desc  *prometheus.Desc
		value func(*feed.LineStats) uint64
	}{
		{feedDesc("line_segments_total", "Packets that the line brought.", "line"), func(s *feed.LineStats) uint64 { return s.Segments }},
		{feedDesc("line_bytes_total", "Bytes of payload that the line brought.", "line"), func(s *feed.LineStats) uint64 { return s.Bytes }},
		{feedDesc("line_first_messages_total", "Messages that the line brought first.", "line"), func(s *feed.LineStats) uint64 { return s.FirstWins }},
		{feedDesc("line_duplicate_messages_total", "Messages that were there already.", "line"), func(s *feed.LineStats) uint64 { return s.Duplicates }},
		{feedDesc("line_lost_messages_total", "Messages that the line did not bring.", "line"), func(s *feed.LineStats) uint64 { return s.Lost }},
		{feedDesc("line_reordered_messages_total", "Messages that the line brought after later ones.", "line"), func(s *feed.LineStats) uint64 { return s.Reordered }},
	}
	lineDead = feedDesc("line_dead", "1 while the line brings nothing.", "line")
)

func feedDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "feed", name), help, append([]string{"feed"}, labels...), nil)
}

// Describe sends all descriptions.
func (f *Feeds) Describe(to chan<- *prometheus.Desc) {
	for i := range ofChannel {
		to <- ofChannel[i].desc
	}
	for i := range ofLine {
		to <- ofLine[i].desc
	}
	to <- openGaps
	to <- lineDead
}

// Collect sends what was stored last.
func (f *Feeds) Collect(to chan<- prometheus.Metric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range f.names {
		x := f.feeds[name]
		for i := range ofChannel {
			to <- prometheus.MustNewConstMetric(ofChannel[i].desc, prometheus.CounterValue, float64(ofChannel[i].value(&x.channel)), name)
		}
		to <- prometheus.MustNewConstMetric(openGaps, prometheus.GaugeValue, float64(x.channel.Holes), name)
		for n := range x.lines {
			line := strconv.Itoa(n)
			for i := range ofLine {
				to <- prometheus.MustNewConstMetric(ofLine[i].desc, prometheus.CounterValue, float64(ofLine[i].value(&x.lines[n])), name, line)
			}
			to <- prometheus.MustNewConstMetric(lineDead, prometheus.GaugeValue, flag(x.lines[n].Dead), name, line)
		}
	}
}
