package buffers_test

import (
	"math/rand/v2"
	"testing"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/stretchr/testify/require"
)

// The pool against the model, over operations from a seed; a failing seed is in the subtest's trace.
func TestRandomOperations(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 20
	}
	for seed := range uint64(rounds) {
		runModel(t, seed, 1000)
	}
}

func runModel(t *testing.T, seed uint64, n int) {
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	r := rand.New(rand.NewPCG(seed, 1))
	ops := make([]byte, n)
	for i := range ops {
		ops[i] = byte(r.Uint32())
	}
	newModel(t, ops).run()
}

// FuzzPool reads its input as a sequence of operations, each a byte followed by its arguments; see model.run.
func FuzzPool(f *testing.F) {
	f.Add([]byte{0, 0, 3, 0, 20, 50, 0, 6, 0, 11, 0})
	f.Add([]byte{8, 30, 8, 30, 19, 0, 0, 13, 0, 16, 0, 18})
	f.Add([]byte{8, 10, 10, 0, 13, 0, 16, 0, 13, 0, 30, 0, 0, 0})
	f.Fuzz(func(t *testing.T, ops []byte) {
		newModel(t, ops[:min(len(ops), 4096)]).run()
	})
}

func stalePacketIsHarmless(t testing.TB, p *buffers.DriverPool, pk buffers.Packet) {
	t.Helper()
	require.False(t, pk.Valid())
	require.False(t, pk.IsZero())
	require.Nil(t, pk.Bytes())
	require.Zero(t, pk.Len())
	require.Zero(t, pk.NumBuffers())
	require.Nil(t, pk.Room())
	require.Zero(t, pk.CopyTo(make([]byte, 10)))
	require.Equal(t, buffers.Buffer{}, pk.Buffer())
	for range pk.Segments() {
		require.Fail(t, "segment of a stale packet")
	}
	require.ErrorIs(t, pk.Release(), buffers.ErrStale)
	require.ErrorIs(t, pk.Retain(), buffers.ErrStale)
	require.ErrorIs(t, pk.Pull(0), buffers.ErrStale)
	require.ErrorIs(t, pk.SetLen(0), buffers.ErrStale)
	_, err := pk.Lend()
	require.ErrorIs(t, err, buffers.ErrStale)
	_, err = p.Transmit(pk)
	require.ErrorIs(t, err, buffers.ErrStale)
	require.Panics(t, func() { p.Deliver(pk) })
	require.Panics(t, func() { p.Complete(pk) })
}

func staleLentIsHarmless(t testing.TB, l buffers.Lent) {
	t.Helper()
	require.False(t, l.Valid())
	require.Nil(t, l.Bytes())
	require.Zero(t, l.Len())
	require.Zero(t, l.CopyTo(make([]byte, 10)))
	for range l.Segments() {
		require.Fail(t, "segment of a stale packet")
	}
	require.ErrorIs(t, l.Release(), buffers.ErrStale)
	require.ErrorIs(t, l.Retain(), buffers.ErrStale)
}

func staleBufferIsHarmless(t testing.TB, b buffers.Buffer) {
	t.Helper()
	require.False(t, b.Valid())
	require.Nil(t, b.Bytes())
	_, ok := b.Next()
	require.False(t, ok)
	require.ErrorIs(t, b.Retain(), buffers.ErrStale)
	require.ErrorIs(t, b.Release(), buffers.ErrStale)
}
