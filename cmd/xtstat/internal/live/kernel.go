package live

import (
	"maps"
	"slices"
	"time"

	"github.com/socketxtreme/socketxtreme/cmd/xtstat/internal/why"
	"github.com/socketxtreme/socketxtreme/stats"
)

// kernelLosses is what the kernel alone has counted as lost since the process began, or since two minutes before the first update: the kernel's
// own totals are from before the process. Samples that are gone from the file are in it.
type kernelLosses struct {
	losses map[string]uint64 // until the sample before the newest one: the newest may be corrected by the one that follows
	until  time.Time         // the time of that sample
	known  []why.Loss        // of the samples until then, the last ones
}

// add counts the samples that are new, and returns the losses of all. Those of samples that were counted before are remembered: to compute them
// takes some hundred microseconds each.
func (k *kernelLosses) add(samples []stats.Sample) []why.Loss {
	if k.losses == nil {
		k.losses = map[string]uint64{}
	}
	first := 0
	for first < len(samples) && !samples[first].Time.After(k.until) {
		first++
	}
	list := make([]why.Loss, len(samples))
	from := max(0, first-why.Reach-1)
	copy(list[from:], why.Losses(samples[from:]))
	for i := range min(first, len(k.known)) {
		list[first-1-i] = k.known[len(k.known)-1-i]
	}
	last := max(0, len(samples)-1)
	for i := first; i < last; i++ {
		if i == 0 && samples[0].Number != 1 { // what was before the first one is not known
			list[0] = why.Loss{}
		}
		for name, n := range list[i].Kernel {
			k.losses[name] += n
		}
		k.until = samples[i].Time
	}
	k.known = slices.Clone(list[:last])
	return list
}

// counts are the kernel's counters with their rates over the last minute of samples, with what was lost in each.
func (k *kernelLosses) counts(samples []stats.Sample, lost []why.Loss) []Count {
	totals, minute, seconds := maps.Clone(k.losses), map[string]uint64{}, 0.0
	for i := max(1, len(samples)-60); i < len(samples); i++ {
		seconds += samples[i].Interval.Seconds()
		for name, n := range lost[i].Kernel {
			minute[name] += n
			if i == len(samples)-1 {
				totals[name] += n
			}
		}
	}
	var list []Count
	for _, name := range slices.Sorted(maps.Keys(totals)) {
		c := Count{Name: name, Total: totals[name]}
		if seconds > 0 {
			c.Rate = float64(minute[name]) / seconds
		}
		list = append(list, c)
	}
	return list
}
