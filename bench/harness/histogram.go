package harness

import "math/bits"

// histogram is c/histogram.h: exact below 2,048 ns, then 1,024 bins per power of two.
type histogram struct {
	n, max uint64
	bins   [(histogramTop-9)*histogramSub + histogramSub]uint64
}

const (
	histogramSub = 1024
	histogramTop = 40
)

func (h *histogram) add(v uint64) {
	h.bins[histogramBin(v)]++
	h.n++
	h.max = max(h.max, v)
}

// histogramBin returns the bin of a value: exact up to 2*histogramSub, then with that many bins for each power of two.
func histogramBin(v uint64) uint64 {
	v = min(v, 1<<histogramTop-1)
	if v < 2*histogramSub {
		return v
	}
	shift := uint64(63-bits.LeadingZeros64(v)) - 10
	return shift*histogramSub + v>>shift
}

// at returns the nearest-rank Quantile, 0 when nothing was recorded.
func (h *histogram) at(q float64) uint64 {
	rank, seen := max(uint64(q*float64(h.n)+0.999999999), 1), uint64(0)
	for bin, n := range h.bins {
		if seen += n; seen < rank {
			continue
		}
		v := uint64(bin)
		if v >= 2*histogramSub { // the middle of the bin
			shift := v/histogramSub - 1
			v = (v-shift*histogramSub)<<shift + 1<<shift/2
		}
		return min(v, h.max)
	}
	return h.max
}
