package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/socketxtreme/socketxtreme/stats"
)

// sendBlocks sends the counters of a section for each of its blocks, with what the block's text has for the labels. Blocks with the same labels
// are added up.
func (c *Collector) sendBlocks(s *stats.Section, send func(prometheus.Metric)) {
	sums, labels := map[string]map[string]uint64{}, map[string][]string{}
	for _, b := range c.reader.Blocks(s.Name) {
		var values []string
		for _, name := range labelsOf[s.Name] {
			values = append(values, b.Info[name])
		}
		key := strings.Join(values, "\x00")
		if sums[key] == nil {
			sums[key], labels[key] = map[string]uint64{}, values
		}
		for name, v := range b.Totals {
			sums[key][name] += v
		}
	}
	for key, values := range sums {
		for i := range s.Counters {
			row := &s.Counters[i]
			kind := prometheus.CounterValue
			if row.Type != stats.Total {
				kind = prometheus.GaugeValue
			}
			send(prometheus.MustNewConstMetric(c.fixed[s.Name+"."+row.Name], kind, base(row, values[row.Name]), labels[key]...))
		}
	}
}
