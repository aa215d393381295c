package simnet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sink is a line that ends at a switch without another port, and what arrived there.
func sink(t *testing.T, m Impairment) (*World, *Line) {
	w := New(11)
	a, b := w.Switch("a"), w.Switch("b")
	c, err := w.Connect(a, b)
	require.NoError(t, err)
	require.NoError(t, c.AB.Set(m))
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w, c.AB
}

// pour sends frames of one length at once.
func pour(w *World, l *Line, n, length int, kind Kind) {
	for i := range n {
		f := w.newFrame(length)
		clear(f.b)
		f.b[0], f.b[20], f.b[21] = 2, byte(i>>8), byte(i)
		f.kind = kind
		w.switches[0].stats.Queries++ // its books: the switch had to get them from somewhere
		l.send(f)
	}
}

func TestImpairments(t *testing.T) {
	const n = 10_000
	about := func(t *testing.T, share float64, got uint64) {
		require.InEpsilon(t, share*n, got, 0.1)
	}
	for name, x := range map[string]struct {
		m     Impairment
		check func(t *testing.T, s LineStats)
	}{
		"clear": {Impairment{}, func(t *testing.T, s LineStats) { require.Equal(t, uint64(n), s.Arrived) }},
		"loss":  {Impairment{Loss: 0.1}, func(t *testing.T, s LineStats) { about(t, 0.1, s.Lost[LostRandom]) }},
		"nth":   {Impairment{Nth: 7}, func(t *testing.T, s LineStats) { require.Equal(t, uint64(n/7), s.Lost[LostNth]) }},
		"kind":  {Impairment{Lose: Unicast | ARP}, func(t *testing.T, s LineStats) { require.Equal(t, uint64(n), s.Lost[LostKind]) }},
		"other kind": {Impairment{Lose: ARP, Loss: 1, Kinds: ARP}, func(t *testing.T, s LineStats) {
			require.Equal(t, uint64(n), s.Arrived)
		}},
		"bursts": {Impairment{BurstBegin: 0.01, BurstEnd: 0.1, BurstLoss: 1}, func(t *testing.T, s LineStats) {
			require.InEpsilon(t, n/11, s.Lost[LostBurst], 0.2) // 0.01 / (0.01 + 0.1) of the time
		}},
		"duplicate": {Impairment{Duplicate: 0.2}, func(t *testing.T, s LineStats) {
			about(t, 0.2, s.Duplicated)
			require.Equal(t, n+s.Duplicated, s.Arrived)
		}},
		"reorder":  {Impairment{Reorder: 0.2}, func(t *testing.T, s LineStats) { about(t, 0.2, s.Reordered) }},
		"corrupt":  {Impairment{Corrupt: 0.2}, func(t *testing.T, s LineStats) { about(t, 0.2, s.Corrupted) }},
		"truncate": {Impairment{Truncate: 0.2}, func(t *testing.T, s LineStats) { about(t, 0.2, s.Shortened) }},
		"MTU":      {Impairment{MTU: 85}, func(t *testing.T, s LineStats) { require.Equal(t, uint64(n), s.Lost[LostMTU]) }},
		"down":     {Impairment{Down: true}, func(t *testing.T, s LineStats) { require.Equal(t, uint64(n), s.Lost[LostDown]) }},
		"queue":    {Impairment{Rate: 8000, Queue: 1000}, func(t *testing.T, s LineStats) { require.Equal(t, uint64(10), s.Arrived) }},
	} {
		t.Run(name, func(t *testing.T) {
			w, l := sink(t, x.m)
			pour(w, l, n, 100, Unicast)
			require.NoError(t, w.Run(time.Hour))
			s := l.Stats()
			x.check(t, s)
			require.Equal(t, s.Sent+s.Duplicated, s.Arrived+s.Losses())
			require.Zero(t, s.InFlight)
		})
	}
}

// A line of 8,000 bits per second needs 100 ms for 100 bytes; the delay comes behind it.
func TestRateAndDelay(t *testing.T) {
	w, l := sink(t, Impairment{Rate: 8000, Delay: 50 * time.Millisecond})
	pour(w, l, 3, 100, Unicast)
	for i, at := range []time.Duration{150, 250, 350} {
		require.NoError(t, w.Run(at*time.Millisecond-1))
		require.Equal(t, uint64(i), l.Stats().Arrived)
		require.NoError(t, w.Run(at*time.Millisecond))
		require.Equal(t, uint64(i+1), l.Stats().Arrived)
	}
}

// What one impairment hits does not depend on the others.
func TestImpairmentsAreIndependent(t *testing.T) {
	lost := func(m Impairment) (list []uint64) {
		w, l := sink(t, m)
		for range 1000 {
			before := l.stats.Lost[LostRandom]
			pour(w, l, 1, 100, Unicast)
			if l.stats.Lost[LostRandom] > before {
				list = append(list, l.stats.Sent)
			}
		}
		require.NoError(t, w.Run(time.Hour))
		return list
	}
	want := lost(Impairment{Loss: 0.1})
	require.NotEmpty(t, want)
	require.Equal(t, want, lost(Impairment{Loss: 0.1, Duplicate: 0.3, Corrupt: 0.3, Jitter: time.Second, Reorder: 0.4}))
}

// One bit of a spoiled frame differs, and a copy that others share stays as it is.
func TestCorruptionFlipsOneBit(t *testing.T) {
	w, l := sink(t, Impairment{Corrupt: 1})
	f := w.newFrame(64)
	clear(f.b)
	f.refs = 2
	w.switches[0].stats.Queries++
	l.send(f)
	require.Equal(t, make([]byte, 64), f.b)
	bits := 0
	for _, b := range w.agenda.list[0].frame.b {
		for ; b > 0; b &= b - 1 {
			bits++
		}
	}
	require.Equal(t, 1, bits)
	w.releaseFrame(f)
	require.NoError(t, w.Run(time.Second))
}

func TestImpairmentInWords(t *testing.T) {
	require.Equal(t, "clear", Impairment{}.String())
	require.Equal(t, "delay 1ms, loss 0.5, all arp,igmp lost, down", Impairment{Delay: time.Millisecond, Loss: 0.5, Lose: ARP | IGMP,
		Down: true}.String())
	require.Equal(t, "line.queue_full", LostQueue.String())
	require.Equal(t, "unknown", NumCauses.String())
}
