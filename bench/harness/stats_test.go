package harness

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{[]float64{7}, 0, 7},
		{[]float64{7}, 0.5, 7},
		{[]float64{7}, 1, 7},
		{[]float64{3, 1, 2}, 0.5, 2},
		{[]float64{4, 1, 3, 2}, 0.5, 2.5},
		{[]float64{4, 1, 3, 2}, 0, 1},
		{[]float64{4, 1, 3, 2}, 1, 4},
		{[]float64{5, 1, 4, 2, 3}, 0.25, 2},
		{[]float64{5, 1, 4, 2, 3}, 0.75, 4},
		{[]float64{10, 20}, 0.25, 12.5},
	} {
		require.InDelta(t, c.want, Quantile(c.values, c.q), 1e-12, "%v at %g", c.values, c.q)
	}
	require.True(t, math.IsNaN(Quantile(nil, 0.5)))
}

func TestQuantileLeavesItsArgumentAlone(t *testing.T) {
	values := []float64{3, 1, 2}
	Median(values)
	require.Equal(t, []float64{3, 1, 2}, values)
}

func TestSpread(t *testing.T) {
	require.Equal(t, Spread{Min: 1, Q1: 2, Q3: 4, Max: 5}, spreadOf([]float64{5, 3, 1, 2, 4}))
}

// The ratio is above 1 when ours is better, for every metric of the table.
func TestTimesBetterHasOneDirection(t *testing.T) {
	for _, c := range []struct {
		metric     Metric
		ours, peer float64
		want       float64
	}{
		{MedianLatency, 6000, 24000, 4},
		{MedianLatency, 24000, 6000, 0.25},
		{Transactions, 300e3, 200e3, 1.5},
		{Messages, 200e3, 400e3, 0.5},
		{ServerCPU, 4000, 6000, 1.5},
		{IdleCPU, 0.002, 0.01, 5},
	} {
		require.InDelta(t, c.want, timesBetter(c.metric, c.ours, c.peer), 1e-12, c.metric.Name)
	}
}

func TestUsable(t *testing.T) {
	require.True(t, usable(0.1))
	for _, v := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		require.False(t, usable(v), "%g", v)
	}
}
