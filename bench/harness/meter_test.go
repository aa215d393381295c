package harness

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every answer is judged: awaited, twice, late, out of order, changed, never asked for.
func TestWindow(t *testing.T) {
	m := NewMeter(PingPong, 0, time.Hour, 0, -1)
	m.Tick()
	require.True(t, m.measuring)
	var w Window
	var sent [][]byte
	ask := func() {
		b := make([]byte, MessageSize)
		w.Request(m, b, m.Last)
		sent = append(sent, b)
	}
	for range 5 {
		ask()
	}
	require.Equal(t, 5, w.Outstanding)
	w.Answer(m, sent[0], m.Last)
	w.Answer(m, sent[2], m.Last)
	w.Answer(m, sent[1], m.Last)
	r := &m.reading
	require.Equal(t, 2, w.Outstanding)
	require.EqualValues(t, 3, r.N)
	require.EqualValues(t, 1, r.OutOfOrder)
	w.Answer(m, sent[2], m.Last)
	require.EqualValues(t, 1, r.Duplicated)

	changed := slices.Clone(sent[3])
	changed[60] ^= 1
	future := slices.Clone(sent[3])
	MakeRequest(future, 6)
	for i, b := range [][]byte{changed, future, sent[3][:63], append(slices.Clone(sent[3]), 0), nil, make([]byte, MessageSize)} {
		w.Answer(m, b, m.Last)
		require.EqualValues(t, i+1, r.Corrupt)
	}
	require.Equal(t, 2, w.Outstanding)

	w.Abandon(m)
	require.Zero(t, w.Outstanding)
	require.EqualValues(t, 2, r.Lost)
	w.Answer(m, sent[4], m.Last)
	require.EqualValues(t, 1, r.Lost, "late after all")
	require.EqualValues(t, 2, r.OutOfOrder)
	w.Answer(m, sent[4], m.Last)
	require.EqualValues(t, 2, r.Duplicated)
	require.EqualValues(t, 3, r.N)
	require.EqualValues(t, 5, r.Sent)

	for range windowSlots { // an answer from long ago
		ask()
		w.Answer(m, sent[len(sent)-1], m.Last)
	}
	w.Answer(m, sent[3], m.Last)
	require.EqualValues(t, 3, r.Duplicated)
}

// A request that is lost while the others go on does not stay outstanding for ever.
func TestWindowOvertaken(t *testing.T) {
	m := NewMeter(PingPong, 0, time.Hour, 0, -1)
	m.Tick()
	var w Window
	b := make([]byte, MessageSize)
	w.Request(m, b, m.Last)
	for range windowSlots - 1 {
		w.Request(m, b, m.Last)
		w.Answer(m, b, m.Last)
	}
	require.Equal(t, 1, w.Outstanding)
	w.Request(m, b, m.Last)
	w.Answer(m, b, m.Last)
	require.Zero(t, w.Outstanding)
	require.EqualValues(t, 1, m.reading.Lost)
	require.Zero(t, m.reading.Duplicated)
}

func TestWindowAllocatesNothing(t *testing.T) {
	m := NewMeter(PingPong, 0, time.Hour, 0, -1)
	m.Tick()
	var w Window
	b := make([]byte, MessageSize)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		w.Request(m, b, m.Last)
		w.Answer(m, b, m.Tick())
	}))
}

// The Go client's histogram has the C client's resolution.
func TestHistogram(t *testing.T) {
	var h histogram
	require.Zero(t, h.at(0.5))
	for v := uint64(1); v <= 100_000; v++ {
		h.add(v)
	}
	for _, q := range []float64{0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1} {
		require.InEpsilon(t, q*100_000, h.at(q), 0.001, "%g", q)
	}
	h.add(1 << 60) // beyond the last bin
	require.EqualValues(t, 1<<60, h.max)
	require.Less(t, h.at(1), uint64(1)<<histogramTop)
}

// The phases of a measurement follow the clock; CPU times are read where there is a process.
func TestMeter(t *testing.T) {
	m := NewMeter(PingPong, 5*time.Millisecond, 250*time.Millisecond, 1, -1)
	m.answer(m.Last, m.Last)
	require.Zero(t, m.reading.N, "of the warm-up")
	for !m.Finished {
		from := m.Last
		m.answer(from, m.Tick())
	}
	r := m.Result()
	require.Equal(t, PingPong, r.Mode)
	require.GreaterOrEqual(t, r.Seconds, 0.24)
	require.Less(t, r.Seconds, 5.0)
	require.EqualValues(t, 100, r.WindowMS)
	require.GreaterOrEqual(t, r.Windows, 2)
	require.Positive(t, r.ClientCPUSeconds)
	require.Empty(t, r.empty(Workload{Mode: PingPong}))
	require.Positive(t, busySeconds(0))
}
