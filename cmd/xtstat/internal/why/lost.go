package why

import (
	"maps"
	"slices"
	"strings"

	"github.com/socketxtreme/socketxtreme/stats"
)

// Lost is for each sample how much was lost since the one before it, in packets, frames and datagrams: what the rules count, each packet once.
// Packets that took the way through the kernel are late and not in it, nor are messages of feeds, which are lost upstream or are in packets that
// are counted, nor what the program's own receive callbacks drop, which may be filters. The first sample counts from the begin of the process.
func Lost(samples []stats.Sample) []uint64 {
	lost := make([]uint64, len(samples))
	for i, x := range Losses(samples) {
		lost[i] = x.Count
	}
	return lost
}

// Loss is what was lost between two samples.
type Loss struct {
	Count  uint64
	Kernel map[string]uint64 // of it, what no counter of this process has, by the kernel's counters; nil: nothing
}

// Losses is Lost with what the kernel alone has counted.
func Losses(samples []stats.Sample) []Loss {
	list := make([]Loss, len(samples))
	for i := range samples {
		if i == 0 {
			list[0] = sumOfLosses([]stats.Sample{BeginOf(&samples[0]), samples[0]})
			continue
		}
		x := sumOfLosses(samples[i-1 : i+1])
		if x.Count == 0 {
			continue
		}
		from := max(0, i-Reach)
		until := func(last int) uint64 { // what the next sample takes back was under way while the counters were read
			return min(sumOfLosses(samples[from:last+1]).Count, sumOfLosses(samples[from:min(last+2, len(samples))]).Count)
		}
		now, before := until(i), until(i-1)
		if n := now - min(now, before); n < x.Count {
			x.reduce(n)
		}
		list[i] = x
	}
	return list
}

// Reach is how many samples may lie between two counters that have the same packet, because their owners store them at other times.
const Reach = 4

// reduce leaves so many of what was lost. What counters of this process have stays first.
func (x *Loss) reduce(n uint64) {
	left := n
	for _, v := range x.Kernel {
		x.Count -= v
	}
	left -= min(left, x.Count)
	for _, name := range slices.Sorted(maps.Keys(x.Kernel)) {
		v := min(x.Kernel[name], left)
		if left -= v; v == 0 {
			delete(x.Kernel, name)
			continue
		}
		x.Kernel[name] = v
	}
	x.Count = n
}

// BeginOf is what was counted when the process began, made of its first sample: what it counts itself was 0. What the kernel counts is from
// before, and as it is in that sample.
func BeginOf(first *stats.Sample) stats.Sample {
	values := map[string]uint64{}
	for name, v := range first.Values {
		if counter, ok := strings.CutPrefix(name, stats.Host+"."); ok {
			if _, row := stats.SectionOf(stats.Drivers).Split(counter); row == nil {
				values[name] = v
			}
		}
	}
	return stats.Sample{Values: values}
}

// sumOfLosses is what was lost between the first and the last of some samples, without what only the journal has.
func sumOfLosses(samples []stats.Sample) (sum Loss) {
	const groups = stats.Host + "." + loopback + ".groups"
	e := &Evidence{Deltas: map[string]uint64{}, Most: map[string]uint64{}, asked: map[string]bool{}}
	for i := range samples {
		e.Most[groups] = max(e.Most[groups], samples[i].Values[groups])
		if i == 0 {
			continue
		}
		before := samples[i-1].Values
		for name, v := range samples[i].Values {
			if v > before[name] {
				e.Deltas[name] += v - before[name]
			}
		}
	}
	for _, rule := range rules {
		for _, f := range rule(e) {
			if slices.Contains([]kind{aboutLoss, aboutRing, aboutKernel, aboutUnwanted, aboutSends}, f.kind) {
				sum.Count += f.Count
				if f.counter != "" && f.Count > 0 {
					if sum.Kernel == nil {
						sum.Kernel = map[string]uint64{}
					}
					sum.Kernel[f.counter] += f.Count
				}
			}
		}
	}
	return sum
}
