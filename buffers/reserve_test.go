package buffers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
)

// Take leaves the reserve to Alloc and AllocTransmit, also after those have taken of it and given it back.
func TestReserve(t *testing.T) {
	p := tiny(t)
	require.NoError(t, p.SetReserve(buffers.Small, 2))
	require.Equal(t, 2, p.Reserve(buffers.Small))
	var taken []uint32
	for range 2 {
		require.True(t, p.CanReceive(buffers.Small))
		i, ok := p.Take(buffers.Small)
		require.True(t, ok)
		taken = append(taken, i)
	}
	_, ok := p.Take(buffers.Small)
	require.False(t, ok)
	require.True(t, p.CanReceive(buffers.Small), "two lie ready")
	received := []buffers.Packet{p.Fill(taken[0], 20, 1, 0), p.Fill(taken[1], 20, 1, 0)}
	require.False(t, p.CanReceive(buffers.Small))
	require.Equal(t, 2, p.Available(buffers.Small))

	sent, _ := p.AllocTransmit(20, 10)
	require.False(t, sent.IsZero())
	held, err := p.Alloc(10)
	require.NoError(t, err)
	require.Zero(t, p.Free(buffers.Small))
	p.FreeTransmit(sent)
	require.NoError(t, received[0].Release())
	_, ok = p.Take(buffers.Small)
	require.False(t, ok, "the two that are free are the reserve")
	require.NoError(t, held.Release())
	i, ok := p.Take(buffers.Small)
	require.True(t, ok)
	p.Return(i)
	require.NoError(t, received[1].Release())
}

// The last free buffers are left to AllocTransmit and copies, whatever is queued, and half of them to AllocTransmit.
func TestBuffersForSegments(t *testing.T) {
	p := newPool(t, buffers.Layout{SmallSize: 100, SmallCount: 64, LargeSize: 1000, LargeCount: 2, Headroom: 20})
	require.NoError(t, p.SetReserve(buffers.Small, 16))
	p.KeepForSegments(buffers.Small)
	const least = 64 / 16
	const kept = 2 * least
	require.Equal(t, 64-16-least, p.Copyable(buffers.Small))
	require.Equal(t, 64-16-kept-least, p.Queueable(buffers.Small), "what is left to receiving")
	var queued []buffers.Packet
	for p.Queueable(buffers.Small) > 0 {
		pk, _ := p.AllocTransmit(0, 100)
		p.AddQueued(pk)
		queued = append(queued, pk)
	}
	require.Len(t, queued, 64-kept-least, "the reserve, and what is left to receiving")
	var ready []uint32
	for i, ok := p.Take(buffers.Small); ok; i, ok = p.Take(buffers.Small) {
		ready = append(ready, i)
	}
	require.Equal(t, kept, p.Free(buffers.Small))
	require.Zero(t, p.Queueable(buffers.Small))
	large, err := p.Alloc(100)
	require.NoError(t, err)
	require.Equal(t, kept, p.Free(buffers.Small), "Alloc leaves them too, and takes a large one")
	for i, ok := p.TakeForCopy(buffers.Small); ok; i, ok = p.TakeForCopy(buffers.Small) {
		ready = append(ready, i)
	}
	require.Equal(t, least, p.Free(buffers.Small))
	var sent []buffers.Packet
	for range least {
		pk, room := p.AllocTransmit(20, 30)
		require.Len(t, room, 50)
		sent = append(sent, pk)
	}
	require.Zero(t, p.Free(buffers.Small))
	for _, pk := range queued {
		p.RemoveQueued(pk)
		p.FreeTransmit(pk)
	}
	for _, pk := range sent {
		p.FreeTransmit(pk)
	}
	for _, i := range ready {
		p.Return(i)
	}
	require.NoError(t, large.Release())
}

// However small the reserve, what is queued has it for itself: receiving leaves it beside the last free buffers.
func TestReserveIsBesideTheLastFreeBuffers(t *testing.T) {
	p := newPool(t, buffers.Layout{SmallSize: 100, SmallCount: 64, Headroom: 20})
	require.NoError(t, p.SetReserve(buffers.Small, 8))
	p.KeepForSegments(buffers.Small)
	require.Equal(t, 16, p.Reserve(buffers.Small))
	require.Equal(t, 48, p.ReceiveShare(buffers.Small))
	var ready []uint32
	for i, ok := p.Take(buffers.Small); ok; i, ok = p.Take(buffers.Small) {
		ready = append(ready, i)
	}
	require.Len(t, ready, 48)
	require.GreaterOrEqual(t, p.Queueable(buffers.Small), 8)
	for _, i := range ready {
		p.Return(i)
	}
}

// What other goroutines have released counts as free before the reserve is compared.
func TestReserveReclaims(t *testing.T) {
	p := tiny(t)
	require.NoError(t, p.SetReserve(buffers.Large, 1))
	held, err := p.Alloc(500)
	require.NoError(t, err)
	lent, err := held.Lend() // the only reference
	require.NoError(t, err)
	_, ok := p.Take(buffers.Large)
	require.False(t, ok)
	require.NoError(t, lent.Release())
	i, ok := p.Take(buffers.Large)
	require.True(t, ok)
	p.Return(i)
}

func TestReserveArguments(t *testing.T) {
	p := tiny(t)
	for _, x := range []struct {
		class buffers.Class
		n     int
	}{{buffers.Small, -1}, {buffers.Small, 4}, {buffers.Large, 2}, {buffers.NumClasses, 0}} {
		require.ErrorIs(t, p.SetReserve(x.class, x.n), buffers.ErrSize)
	}
	require.NoError(t, p.SetReserve(buffers.Small, 3))
	require.NoError(t, p.SetReserve(buffers.Small, 0))
	none := newPool(t, buffers.Layout{LargeSize: 1000, LargeCount: 2})
	require.NoError(t, none.SetReserve(buffers.Small, 0))
}
