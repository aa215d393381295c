package metrics

import (
	"strings"
	"time"

	"github.com/socketxtreme/socketxtreme/stats"
)

// totals are a section's totals over all blocks, closed ones included. A block that is closed while they are read may be missing for a moment:
// none goes below what it was.
func (c *Collector) totals(s *stats.Section) map[string]uint64 {
	blocks, closed := c.reader.Blocks(s.Name), c.reader.Closed(s.Name)
	sums := map[string]uint64{}
	for i := range s.Counters {
		row := &s.Counters[i]
		if row.Type != stats.Total || row.Name == "" {
			continue
		}
		sum := closed.Totals[row.Name]
		for j := range blocks {
			sum += blocks[j].Totals[row.Name]
		}
		key := s.Name + "." + row.Name
		sum = max(sum, c.most[key])
		c.most[key], sums[row.Name] = sum, sum
	}
	return sums
}

// namedTotals are the counters of a section whose blocks name them, queues of an interface added up. What blocks had that are closed by now is
// kept here, as it was at the last scrape, because the file does not keep it.
func (c *Collector) namedTotals(section string) map[counterKey]uint64 {
	now := map[blockKey]map[counterKey]uint64{}
	for _, b := range c.reader.Blocks(section) {
		values := map[counterKey]uint64{}
		for _, name := range b.Names {
			values[splitName(section, name)] += b.Totals[name]
		}
		now[blockKey{b.Index, b.Opened.UnixNano()}] = values
	}
	if c.closed[section] == nil {
		c.closed[section] = map[counterKey]uint64{}
	}
	for key, values := range c.last[section] {
		if now[key] == nil && section != stats.Host {
			for k, v := range values {
				c.closed[section][k] += v
			}
		}
	}
	c.last[section] = now
	sums := map[counterKey]uint64{}
	for k, v := range c.closed[section] {
		sums[k] = v
	}
	for _, values := range now {
		for k, v := range values {
			sums[k] += v
		}
	}
	if section == stats.Drivers { // totals alone: one whose link is opened again may begin anew
		for k, v := range sums {
			key := section + "." + k.iface + "." + k.name
			sums[k] = max(v, c.most[key])
			c.most[key] = sums[k]
		}
	}
	return sums
}

// splitName takes the interface off a counter's name: "eth0/2.rx_frames" is rx_frames of eth0, "stack.lost" of no interface.
func splitName(section, name string) counterKey {
	of, _ := stats.SectionOf(section).Split(name)
	if of == "" || of == "tcp" || of == "stack" { // a driver names what the table does not have, and its end may be like a row
		return counterKey{"", name}
	}
	iface, _, _ := strings.Cut(of, "/")
	return counterKey{iface, name[len(of)+1:]}
}

// peakWindow is how far back peaks are looked for: longer than what lies between two scrapes as a rule.
const peakWindow = time.Minute

// peaks are the largest of each peak in the samples of the last minute.
func (c *Collector) peaks() map[string]uint64 {
	samples := c.reader.Samples()
	list := map[string]uint64{}
	if len(samples) == 0 {
		return list
	}
	from := samples[len(samples)-1].Time.Add(-peakWindow)
	for _, s := range samples {
		if s.Time.Before(from) {
			continue
		}
		for _, section := range stats.Sections() {
			for i := range section.Counters {
				if row := &section.Counters[i]; row.Type == stats.Peak {
					name := section.Name + "." + row.Name
					list[name] = max(list[name], s.Values[name])
				}
			}
		}
	}
	return list
}
