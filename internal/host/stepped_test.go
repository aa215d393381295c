package host

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A host without goroutines follows its kernel when it is told to, and speaks for neighbours in use at the times of its clock.
func TestSteppedHost(t *testing.T) {
	facts, now, kicked := twoLinks(), time.Unix(1000, 0), []Target(nil)
	h, steps, err := OpenStepped(SteppedConfig{Facts: func() Facts { return facts }, Now: func() time.Time { return now },
		Request: func(t Target) error { kicked = append(kicked, t); return nil }})
	require.NoError(t, err)
	var changes []Change
	cancel := h.Watch(func(c Change) { changes = append(changes, c) })
	defer cancel()
	asked, err := h.Resolve(gateway)
	require.NoError(t, err)
	require.True(t, asked)
	asked, err = h.Resolve(gateway)
	require.NoError(t, err)
	require.False(t, asked)
	require.Equal(t, []Target{gateway}, kicked)
	steps.Neighbours([]NeighbourChange{{Neighbour: neighbour(gateway, unix.NUD_REACHABLE, 9)}})
	require.Equal(t, []Change{{Neighbours: []Target{gateway}}}, changes)
	hop, err := h.Hold(gateway)
	require.NoError(t, err)
	hop.Touch()
	now = now.Add(refreshEvery)
	steps.Tick()
	require.Len(t, kicked, 2)
	before := h.Generation()
	facts.Links[1].MTU = 1400
	require.NoError(t, steps.Read())
	require.NotEqual(t, before, h.Generation())
	n, ok := h.Snapshot().Neighbour(gateway)
	require.True(t, ok && n.Usable())
	hop.Release()
	require.NoError(t, h.Close())
}
