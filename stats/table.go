package stats

import "strings"

// Type says how a counter moves.
type Type string

// The types.
const (
	Total Type = "total" // only grows
	Gauge Type = "gauge" // what is now
	Peak  Type = "peak"  // the most there was at a time, in each interval of a second: see PeakWords
)

// PeakWords is how many words a peak takes: two pairs of an interval's number and the most in it. The writer uses the pair of the number's
// lowest bit, so that the last interval stays readable while the next one runs.
const PeakWords = 4

// Counter is one row of the table.
type Counter struct {
	Name   string `json:"name"`
	Unit   string `json:"unit"`
	Type   Type   `json:"type"`
	Help   string `json:"help"`
	Kernel string `json:"kernel,omitempty"` // the kernel's name for the same
	Loss   bool   `json:"loss,omitempty"`   // what it counts is lost: the journal tells when it moves

	onset  bool // the journal tells when it begins to grow, and when it ends, by an EventPath each; of a section one at most
	ofLink bool // of a link or a steering program: samples have it for each queue or interface, see copyLinkCounters
}

// Words is how many 64-bit words the counter takes.
func (c *Counter) Words() int {
	if c.Type == Peak {
		return PeakWords
	}
	return 1
}

// Section is a table of the counters that blocks of one kind have, in the order of their words.
type Section struct {
	Name     string    `json:"name"`
	Of       string    `json:"of"` // what a block stands for
	Counters []Counter `json:"counters"`
}

// The sections.
const (
	Pollers = "poller"
	Rings   = "ring"
	Drops   = "drop"
	Drivers = "driver"
	Sockets = "socket"
	Host    = "host"
	Feeds   = "feed"
	Lines   = "feed_line"
)

// Sections is the table of all counters. Those of drivers and of the host have no fixed place: each block names its own (Block.SetNamed), and
// the table has what can be said of them.
func Sections() []Section { return sections }

var sections = []Section{
	{Pollers, "a goroutine that polls, with the buffers of its rings", pollerCounters},
	{Rings, "a ring", ringCounters},
	{Drops, "the reasons for which an offloaded ring drops frames", dropCounters()},
	{Drivers, "an offloaded ring's driver, its stack and its links, by name", driverCounters},
	{Sockets, "a socket", socketCounters},
	{Host, "what the kernel counts on the way to the rings, and of the process, by name; each sample has all of it", hostCounters},
	{Feeds, "a feed of market data (package feed)", feedCounters},
	{Lines, "a line of a feed, the recovery server's too", lineCounters},
}

// namesItsCounters reports whether the blocks of a section name their counters.
func namesItsCounters(section string) bool { return section == Drivers || section == Host }

// SectionOf finds a section by its name; nil for none.
func SectionOf(name string) *Section {
	for i := range sections {
		if sections[i].Name == name {
			return &sections[i]
		}
	}
	return nil
}

// Words is how many words the counters of a block take.
func (s *Section) Words() int {
	n := 0
	for i := range s.Counters {
		n += s.Counters[i].Words()
	}
	return n
}

// Find is the row with a name. Counters of a link or an interface have its name and queue in front ("eth0/2.rx_frames"): their row is found by
// what is behind. A row "ethtool.*" is the one of all names that begin so.
func (s *Section) Find(name string) *Counter {
	_, row := s.Split(name)
	return row
}

// Split is Find that also returns what is in front of the row's name, without the dot: "eth0.5/2" of "eth0.5/2.rx_frames". An interface may have
// dots in its name. It is empty without a row.
func (s *Section) Split(name string) (of string, row *Counter) {
	for rest := name; ; {
		for i := range s.Counters {
			row := &s.Counters[i]
			prefix, any := strings.CutSuffix(row.Name, "*")
			if row.Name == rest || any && strings.HasPrefix(rest, prefix) {
				return strings.TrimSuffix(name[:len(name)-len(rest)], "."), row
			}
		}
		var found bool
		if _, rest, found = strings.Cut(rest, "."); !found || !namesItsCounters(s.Name) {
			return "", nil
		}
	}
}
