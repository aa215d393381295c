package main

import (
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every answer is judged: awaited, twice, late, out of order, changed, never asked for.
func TestWindow(t *testing.T) {
	m := newMeter(PingPong, 0, time.Hour, 0, -1)
	m.tick()
	require.True(t, m.measuring)
	var w window
	var sent [][]byte
	ask := func() {
		b := make([]byte, messageSize)
		w.request(m, b, m.last)
		sent = append(sent, b)
	}
	for range 5 {
		ask()
	}
	require.Equal(t, 5, w.outstanding)
	w.answer(m, sent[0], m.last)
	w.answer(m, sent[2], m.last)
	w.answer(m, sent[1], m.last)
	r := &m.reading
	require.Equal(t, 2, w.outstanding)
	require.EqualValues(t, 3, r.N)
	require.EqualValues(t, 1, r.OutOfOrder)
	w.answer(m, sent[2], m.last)
	require.EqualValues(t, 1, r.Duplicated)

	changed := slices.Clone(sent[3])
	changed[60] ^= 1
	future := slices.Clone(sent[3])
	makeMessage(future, messageRequest, 6)
	for i, b := range [][]byte{changed, future, sent[3][:63], append(slices.Clone(sent[3]), 0), nil, make([]byte, messageSize)} {
		w.answer(m, b, m.last)
		require.EqualValues(t, i+1, r.Corrupt)
	}
	require.Equal(t, 2, w.outstanding)

	w.abandon(m)
	require.Zero(t, w.outstanding)
	require.EqualValues(t, 2, r.Lost)
	w.answer(m, sent[4], m.last)
	require.EqualValues(t, 1, r.Lost, "late after all")
	require.EqualValues(t, 2, r.OutOfOrder)
	w.answer(m, sent[4], m.last)
	require.EqualValues(t, 2, r.Duplicated)
	require.EqualValues(t, 3, r.N)
	require.EqualValues(t, 5, r.Sent)

	for range windowSlots { // an answer from long ago
		ask()
		w.answer(m, sent[len(sent)-1], m.last)
	}
	w.answer(m, sent[3], m.last)
	require.EqualValues(t, 3, r.Duplicated)
}

// A request that is lost while the others go on does not stay outstanding for ever.
func TestWindowOvertaken(t *testing.T) {
	m := newMeter(PingPong, 0, time.Hour, 0, -1)
	m.tick()
	var w window
	b := make([]byte, messageSize)
	w.request(m, b, m.last)
	for range windowSlots - 1 {
		w.request(m, b, m.last)
		w.answer(m, b, m.last)
	}
	require.Equal(t, 1, w.outstanding)
	w.request(m, b, m.last)
	w.answer(m, b, m.last)
	require.Zero(t, w.outstanding)
	require.EqualValues(t, 1, m.reading.Lost)
	require.Zero(t, m.reading.Duplicated)
}

func TestWindowAllocatesNothing(t *testing.T) {
	m := newMeter(PingPong, 0, time.Hour, 0, -1)
	m.tick()
	var w window
	b := make([]byte, messageSize)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		w.request(m, b, m.last)
		w.answer(m, b, m.tick())
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
	m := newMeter(PingPong, 5*time.Millisecond, 250*time.Millisecond, 1, -1)
	m.answer(m.last, m.last)
	require.Zero(t, m.reading.N, "of the warm-up")
	for !m.finished {
		from := m.last
		m.answer(from, m.tick())
	}
	r := m.result()
	require.Equal(t, PingPong, r.Mode)
	require.GreaterOrEqual(t, r.Seconds, 0.24)
	require.Less(t, r.Seconds, 5.0)
	require.EqualValues(t, 100, r.WindowMS)
	require.GreaterOrEqual(t, r.Windows, 2)
	require.Positive(t, r.ClientCPUSeconds)
	require.Empty(t, r.empty(Workload{Mode: PingPong}))
	require.Positive(t, busySeconds(0))
}

// A request of the stack loop is a frame that a kernel would take.
func TestRequestFrame(t *testing.T) {
	f := requestFrame()
	require.Len(t, f, 14+20+8+messageSize)
	require.EqualValues(t, 0xffff, onesSum(0, f[14:34]), "the IP header's checksum")
	require.EqualValues(t, 0xffff, onesSum(17+8+messageSize, f[26:]), "UDP's")
	g := slices.Clone(f)
	turnFrame(g)
	require.NotEqual(t, f, g)
	require.EqualValues(t, 0xffff, onesSum(0, g[14:34]))
	turnFrame(g)
	require.Equal(t, f, g)
}

func TestStackLoops(t *testing.T) {
	for _, stack := range []bool{true, false} {
		for _, batch := range []int{1, 32, 300} {
			if stack && batch > 64 {
				continue // a ring takes so many frames a turn
			}
			turn, closing, err := openStackLoop(batch, stack)
			require.NoError(t, err)
			for range 50 {
				sum, err := turn()
				require.NoError(t, err)
				require.EqualValues(t, batch*(42+messageSize), sum)
			}
			if !raceEnabled {
				require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = turn() }), "stack %v, batch %d", stack, batch)
			}
			require.NoError(t, closing())
		}
	}
}

func TestOffloadArgumentsAreNamed(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"offload"}, "-proto tcp"},
		{[]string{"offload", "-proto", "udp"}, "-iface is missing"},
		{[]string{"offload", "-proto", "udp", "-iface", "v0", "-addr", "x"}, `-addr "x"`},
		{[]string{"offload", "-proto", "udp", "-iface", "v0", "-groups", "255"}, "-groups 255"},
		{[]string{"offload-client"}, "-iface is missing"},
		{[]string{"offload-client", "-iface", "v1"}, `-addr ""`},
		{[]string{"offload-client", "-iface", "v1", "-addr", "10.0.0.1"}, `-peer ""`},
		{[]string{"offload-client", "-iface", "v1", "-addr", "10.0.0.1", "-peer", "10.0.0.2"}, "-port 0"},
		{[]string{"offload-client", "-iface", "v1", "-addr", "10.0.0.1", "-peer", "10.0.0.2", "-port", "1", "-window", "0"}, "-window 0"},
		{[]string{"offload-client", "-iface", "v1", "-addr", "10.0.0.1", "-peer", "10.0.0.2", "-port", "1", "-seconds", "NaN"}, "-seconds NaN"},
		{[]string{"offload-client", "-iface", "v1", "-addr", "10.0.0.1", "-peer", "10.0.0.2", "-port", "1", "-sample", "x"}, `-sample "x"`},
		{[]string{"offload-client", "surplus"}, `"surplus"`},
		{[]string{"stack", "-batch", "0"}, "-batch 0"},
		{[]string{"rawlink", "surplus"}, `"surplus"`},
	} {
		var errs lines
		require.NotZero(t, peerMain(c.args, io.Discard, &errs), "%v", c.args)
		require.Contains(t, string(errs), c.want, "%v", c.args)
	}
}

type lines []byte

func (l *lines) Write(b []byte) (int, error) {
	*l = append(*l, b...)
	return len(b), nil
}

// Where the interface cannot be had, the server refuses with the library's reason, and its rows say so.
func TestOffloadServerRefuses(t *testing.T) {
	var out, errs lines
	code := peerMain([]string{"offload", "-proto", "udp", "-iface", "nonesuch0", "-addr", "127.0.0.1:0"}, &out, &errs)
	require.Zero(t, code, string(errs))
	require.Contains(t, string(out), "refused ")
	require.Contains(t, string(out), "nonesuch0")
}
