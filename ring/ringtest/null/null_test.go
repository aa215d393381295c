package null

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
)

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

// What the two loops read is the same, turn after turn: they do the same work.
func TestLayerAndBareReadTheSame(t *testing.T) {
	for _, batch := range []int{1, 16, 64, MostBatch} {
		layer, err := NewLayer(batch)
		require.NoError(t, err)
		bare, err := NewBare(batch)
		require.NoError(t, err)
		for range 5 {
			got, err := layer.Turn()
			require.NoError(t, err)
			want := uint64(batch * (batch - 1) / 2) // the ordinals of the first buffers
			require.Equal(t, want, bare.Turn())
			require.Equal(t, want, got)
		}
		require.EqualValues(t, 5*batch, layer.Completions())
		require.NoError(t, layer.Close())
		require.NoError(t, bare.Close())
	}
}

func TestLayerWithoutData(t *testing.T) {
	layer, err := NewLayer(0)
	require.NoError(t, err)
	sum, err := layer.Turn()
	require.NoError(t, err)
	require.Zero(t, sum)
	require.Zero(t, layer.Completions())
	require.NoError(t, layer.Close())
}

func TestTurnsAllocateNothing(t *testing.T) {
	layer, err := NewLayer(16)
	require.NoError(t, err)
	bare, err := NewBare(16)
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if _, err := layer.Turn(); err != nil {
			panic(err)
		}
		bare.Turn()
	}))
	require.NoError(t, layer.Close())
	require.NoError(t, bare.Close())
}

func TestBatchIsChecked(t *testing.T) {
	for _, batch := range []int{-1, MostBatch + 1} {
		_, err := NewLayer(batch)
		require.ErrorIs(t, err, unix.EINVAL)
		require.ErrorContains(t, err, "batch")
		_, err = NewBare(batch)
		require.ErrorIs(t, err, unix.EINVAL)
	}
	_, err := NewBare(0)
	require.ErrorContains(t, err, "batch 0")
}

// Packets that are kept are not taken away, and the delivery goes on when they come back.
func TestKeptPacketsStopTheDelivery(t *testing.T) {
	layer, err := NewLayer(64)
	require.NoError(t, err)
	var kept []buffers.Packet
	for range 2 * layout().SmallCount / 64 {
		n, err := layer.ring.Poll(layer.done)
		require.NoError(t, err)
		for i := range layer.done[:n] {
			kept = append(kept, layer.done[i].Packet)
		}
	}
	require.LessOrEqual(t, len(kept), layout().SmallCount)
	require.Zero(t, layer.ring.Stats().ClosedDrops)
	sum, err := layer.Turn()
	require.NoError(t, err)
	require.Zero(t, sum)
	for _, p := range kept {
		require.NoError(t, p.Release())
	}
	before := layer.Completions()
	for range 10 {
		_, err = layer.Turn()
		require.NoError(t, err)
	}
	require.Greater(t, layer.Completions(), before)
	require.NoError(t, layer.Close())
}

func TestDriverRefusesWhatItCannotDo(t *testing.T) {
	layer, err := NewLayer(1)
	require.NoError(t, err)
	c := ring.Config{LargestDatagram: 2048}
	second, err := layer.set.NewSocket(ring.KindDatagram, ring.IPv4, c)
	require.NoError(t, err)
	require.ErrorContains(t, second.Bind(loopback), "second socket")
	stream, err := layer.set.NewSocket(ring.KindStream, ring.IPv4, ring.Config{})
	require.NoError(t, err)
	require.NoError(t, stream.Bind(loopback))
	require.ErrorIs(t, stream.Listen(1), unix.EOPNOTSUPP)
	require.Zero(t, layer.ring.Caps())
	for _, cap := range ring.AllCaps() {
		require.Equal(t, "null."+cap.String(), layer.ring.Why(cap).Code)
	}
	pending, err := layer.ring.Arm()
	require.NoError(t, err)
	require.True(t, pending)
	require.NoError(t, layer.Close())
}
