package handler

import (
	"slices"

	"github.com/socketxtreme/socketxtreme/feed"
)

// skewKept is how many samples are kept for the median; beyond it every new one replaces an old one, by turns.
const skewKept = 1 << 16

// skew is how much later line B (1) brought a packet than line A (0), ns.
type skew struct {
	samples  []int64
	n        uint64
	a, b     uint64 // who was first
	min, max int64
}

func newSkew() skew { return skew{samples: make([]int64, 0, skewKept)} }

// add takes a duplicate that found its twin.
func (s *skew) add(d *feed.Delivery[Ref]) {
	v := d.Lag
	switch {
	case d.Line == 1 && d.TwinLine == 0:
	case d.Line == 0 && d.TwinLine == 1:
		v = -v
	default:
		return // a third line
	}
	switch {
	case v > 0:
		s.a++
	case v < 0:
		s.b++
	}
	if s.n == 0 {
		s.min, s.max = v, v
	}
	s.min, s.max = min(s.min, v), max(s.max, v)
	if len(s.samples) < skewKept {
		s.samples = append(s.samples, v)
	} else {
		s.samples[s.n%skewKept] = v
	}
	s.n++
}

// median is the lower of the two in the middle.
func (s *skew) median() int64 {
	if len(s.samples) == 0 {
		return 0
	}
	all := slices.Sorted(slices.Values(s.samples))
	return all[len(all)/2]
}
