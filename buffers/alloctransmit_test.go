package buffers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
)

// A draft is what Alloc, Push and Transmit make, in either class and in debug mode.
func TestAllocTransmit(t *testing.T) {
	for _, debug := range []bool{false, true} {
		p := tiny(t)
		p.SetDebug(debug)
		for _, test := range []struct{ head, n int }{{0, 0}, {0, 100}, {20, 100}, {7, 1}, {20, 101}, {0, 1000}} {
			pk, frame := p.AllocTransmit(test.head, test.n)
			require.True(t, pk.Valid(), "%v", test)
			require.Len(t, frame, test.head+test.n)
			require.Equal(t, len(frame), cap(frame))
			require.Equal(t, test.head+test.n, pk.Len())
			require.Equal(t, 20-test.head, pk.Headroom())
			require.Equal(t, 1, p.Ledger().Transmitting)
			if len(frame) > 0 {
				require.Same(t, &frame[0], &pk.Bytes()[0])
			}
			require.NoError(t, p.Verify())
			p.FreeTransmit(pk)
			require.False(t, pk.Valid())
		}
		for _, bad := range [][2]int{{21, 10}, {-1, 10}, {0, 1001}, {0, -1}} {
			pk, frame := p.AllocTransmit(bad[0], bad[1])
			require.True(t, pk.IsZero() && frame == nil, "%v", bad)
		}
	}
}

// With the small class used up the large one serves, then none does, which is counted.
func TestAllocTransmitExhausted(t *testing.T) {
	p := tiny(t)
	var taken []buffers.Packet
	for range 6 {
		pk, frame := p.AllocTransmit(14, 50)
		require.Len(t, frame, 64)
		taken = append(taken, pk)
	}
	pk, _ := p.AllocTransmit(14, 50)
	require.True(t, pk.IsZero())
	require.EqualValues(t, 1, p.Stats().Exhausted)
	for _, pk := range taken {
		p.FreeTransmit(pk)
	}
	require.EqualValues(t, 6, p.Freed())
}

// Sent is Complete and Release: of chains too, and with their checks.
func TestSent(t *testing.T) {
	p := tiny(t)
	a, b := receive(t, p, "a", 0), receive(t, p, "b", 0)
	pk, err := p.Transmit(p.Append(a, b))
	require.NoError(t, err)
	p.FreeTransmit(pk)
	require.Equal(t, 6, p.Ledger().Free)
	require.Panics(t, func() { p.FreeTransmit(pk) }, "stale")
	held, err := p.Alloc(1)
	require.NoError(t, err)
	require.Panics(t, func() { p.FreeTransmit(held) }, "not transmitting")
	require.NoError(t, held.Release())

	// One of its buffers is kept: the frame ends, the buffer stays.
	pk, _ = p.AllocTransmit(0, 10)
	keep := pk.Buffer()
	require.NoError(t, keep.Retain())
	p.FreeTransmit(pk)
	require.Equal(t, 5, p.Ledger().Free)
	require.NoError(t, keep.Release())
}
