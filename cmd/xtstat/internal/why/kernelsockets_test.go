package why

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/stats"
)

// socketDrops are looks at a socket's drops from one time to another, ten a second, that find so many in all.
func socketDrops(from, to int, n uint64) (list []stats.Event) {
	looks := uint64((to-from)/100) + 1
	for i := range looks {
		x := drop(from+100*int(i), n/looks, "drops")
		if i == 0 {
			x.Count += n % looks
		}
		list = append(list, x)
	}
	return list
}

// oneCause is the only finding of a window of ten seconds, of which each second has these values, and the last one besides what delta says.
func oneCause(t *testing.T, values, delta map[string]uint64, events ...stats.Event) Finding {
	var list []stats.Sample
	for i := range 10 {
		s := stats.Sample{Number: uint64(i + 1), Time: noon.Add(time.Duration(i+1) * time.Second), Interval: time.Second, Values: map[string]uint64{}}
		for name, v := range values {
			s.Values[name] = v
		}
		for name, v := range delta {
			if i >= 2 { // the third second
				s.Values[name] += v
			}
		}
		list = append(list, s)
	}
	found := Explain(Gather(list, events, noon, noon.Add(10*time.Second)))
	require.Len(t, found, 1, "%+v", found)
	return found[0]
}

// A loss that lasts is not from a short gap between polls: only if gaps take at least half of its time they are the cause. What was lost in one
// look is from a gap of some milliseconds.
func TestAShortGapAndALongLoss(t *testing.T) {
	gap := func(ms int, length time.Duration) stats.Event {
		return pollGap(ms, uint64(length), stats.CodePreempted, ": another thread had the processor")
	}
	const slow, gaps = "it is read too slowly", "the loop did not poll for"
	for name, c := range map[string]struct {
		events []stats.Event
		place  Place
		cause  string
		not    string
	}{
		"a gap of a millisecond in two seconds": {append(socketDrops(2100, 4300, 19524), gap(3000, 1067*time.Microsecond)), Socket, slow, gaps},
		"a slow handler":                        {append(socketDrops(2100, 2460, 56169), gap(2200, 25*time.Millisecond)), Socket, slow, gaps},
		"half of the time": {append(socketDrops(2100, 2500, 900), gap(2200, 80*time.Millisecond), gap(2300, 90*time.Millisecond), gap(2500, 70*time.Millisecond)),
			Kernel, gaps, slow},
		"less than half":                   {append(socketDrops(2100, 2500, 900), gap(2200, 80*time.Millisecond), gap(2300, 90*time.Millisecond)), Socket, slow, gaps},
		"most of it before the first look": {append(socketDrops(2100, 2500, 900), gap(2110, 1900*time.Millisecond)), Kernel, gaps, slow},
		"one look":                         {append(socketDrops(2100, 2100, 900), gap(2095, 20*time.Millisecond)), Kernel, gaps, slow},
		"one look, a tiny gap":             {append(socketDrops(2100, 2100, 900), gap(2095, time.Millisecond)), Socket, slow, gaps},
		"no gap":                           {socketDrops(2100, 2300, 900), Socket, slow, gaps},
	} {
		t.Run(name, func(t *testing.T) {
			f := oneCause(t, nil, nil, c.events...)
			require.Equal(t, c.place, f.Place, "%+v", f)
			require.Contains(t, f.Cause, c.cause)
			require.NotContains(t, f.Cause, c.not)
		})
	}
	// Two gaps are one cause, which says how much they took together.
	f := oneCause(t, nil, nil, append(socketDrops(2100, 2500, 900), gap(2250, 120*time.Millisecond), gap(2500, 150*time.Millisecond))...)
	require.Contains(t, f.Cause, "the loop did not poll for 270ms in 2 gaps (the longest 150ms: preempted")
	require.EqualValues(t, 900, f.Count)
}

// Of gaps with several causes the cause that took most of the time is named, not that of the longest gap.
func TestTheCauseOfMostGaps(t *testing.T) {
	ms := uint64(time.Millisecond)
	f := oneCause(t, nil, nil, append(socketDrops(2100, 2400, 900), pollGap(2180, 70*ms, stats.CodeStopped, ": no thread of the process ran"),
		pollGap(2250, 60*ms, stats.CodePreempted, ": another thread had the processor"), pollGap(2400, 65*ms, stats.CodePreempted, ": another thread had the processor"))...)
	require.Equal(t, Kernel, f.Place, "%+v", f)
	require.Contains(t, f.Cause, "did not poll for 195ms in 3 gaps (2 of them took 125ms, the longest 65ms: preempted: another thread had the processor), and")
}

// Where the program holds packets, reading stops, and the kernel's buffer becomes full: that is the program's. Packets that wait in the ring's
// queue are not held.
func TestHeldPacketsOfAKernelRing(t *testing.T) {
	lost := func() []stats.Event {
		return append(socketDrops(2100, 4300, 19524), pollGap(3000, 1_067_000, stats.CodePreempted, ": another thread had the processor"))
	}
	held := map[string]uint64{"poller.buffers": 520, "poller.buffers_used_peak": 225, "poller.buffers_held": 220, "socket.held_bytes": 225 * 2048}
	for name, stopped := range map[string]map[string]uint64{"budget": {"ring.budget_stops": 1}, "pool": {"ring.starved": 1}, "before": nil} {
		f := oneCause(t, held, stopped, lost()...)
		require.Equal(t, Application, f.Place, "%s: %+v", name, f)
		require.Contains(t, f.Cause, "220 of 520 buffers")
		require.Contains(t, f.Cause, "not released")
		require.EqualValues(t, 19524, f.Count)
		require.Contains(t, f.Evidence, "sockets held at most 460800 bytes")
		for counter := range stopped {
			require.Contains(t, f.Evidence, counter+" +1")
		}
	}
	waiting := map[string]uint64{"poller.buffers": 520, "poller.buffers_received": 220, "poller.buffers_held": 3, "socket.held_bytes": 225 * 2048}
	f := oneCause(t, waiting, map[string]uint64{"ring.budget_stops": 1}, lost()...)
	require.Equal(t, Socket, f.Place, "%+v", f)
	require.Contains(t, f.Cause, "it is read too slowly")
	f = oneCause(t, map[string]uint64{"poller.buffers": 520, "poller.buffers_held": 12}, nil, lost()...)
	require.Equal(t, Socket, f.Place, "a few packets that the program works on do not stop reading: %+v", f)
}
