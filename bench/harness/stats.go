package harness

import (
	"math"
	"slices"
)

// Quantile interpolates linearly between the sorted values (0 <= q <= 1); NaN for none.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	below := int(at)
	if below == len(sorted)-1 {
		return sorted[below]
	}
	part := at - float64(below)
	return sorted[below]*(1-part) + sorted[below+1]*part
}

func Median(values []float64) float64 { return Quantile(values, 0.5) }

// Spread shows how far the ratios of the rounds lie apart.
type Spread struct {
	Min float64 `json:"min"`
	Q1  float64 `json:"q1"`
	Q3  float64 `json:"q3"`
	Max float64 `json:"max"`
}

func spreadOf(values []float64) Spread {
	return Spread{Min: Quantile(values, 0), Q1: Quantile(values, 0.25), Q3: Quantile(values, 0.75), Max: Quantile(values, 1)}
}

// timesBetter is the ratio of a row: above 1 when ours is better, whichever direction better is.
func timesBetter(m Metric, ours, peer float64) float64 {
	if m.Allowed > 0 {
		return m.Allowed / max(ours-peer, m.Allowed/mostTimesBetter)
	}
	if m.HigherBetter {
		return ours / peer
	}
	return peer / ours
}

// mostTimesBetter bounds the ratio of a difference, which may be nothing or, by luck, less.
const mostTimesBetter = 1000

// usable says that a number can be divided by and printed.
func usable(v float64) bool { return v > 0 && !math.IsInf(v, 0) && !math.IsNaN(v) }
