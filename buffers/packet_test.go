package buffers_test

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/stretchr/testify/require"
)

func text(pk buffers.Packet) string { return string(slices.Concat(slices.Collect(pk.Segments())...)) }

func TestZeroHandles(t *testing.T) {
	var (
		pk buffers.Packet
		b  buffers.Buffer
		l  buffers.Lent
	)
	require.True(t, pk.IsZero())
	require.False(t, pk.Valid() || b.Valid() || l.Valid())
	require.Nil(t, pk.Bytes())
	require.Nil(t, b.Bytes())
	require.Nil(t, l.Bytes())
	require.Zero(t, pk.Len()+pk.NumBuffers()+l.Len()+pk.CopyTo(make([]byte, 1))+l.CopyTo(make([]byte, 1)))
	_, lendErr := pk.Lend()
	_, transmitErr := tiny(t).Transmit(pk)
	for _, err := range []error{
		pk.Retain(), pk.Release(), pk.SetLen(0), pk.Pull(0), b.Retain(), b.Release(), l.Retain(), l.Release(),
		lendErr, transmitErr,
	} {
		require.ErrorIs(t, err, buffers.ErrNone)
		require.ErrorIs(t, err, buffers.ErrStale)
	}
	panics(t, "Deliver: buffers: zero handle", func() { tiny(t).Deliver(pk) })
}

func TestDoubleRelease(t *testing.T) {
	p := tiny(t)
	pk := receive(t, p, "once", 0)
	again := pk
	require.NoError(t, pk.Release())
	require.ErrorIs(t, again.Release(), buffers.ErrStale)
	require.ErrorIs(t, pk.Release(), buffers.ErrStale)
	require.EqualValues(t, 2, p.Stats().StaleReleases)
}

// A handle kept too long sees nothing, though its buffer has somebody else's data by now.
func TestUseAfterRelease(t *testing.T) {
	p := tiny(t)
	old := receive(t, p, "mine", 0)
	buf := old.Buffer()
	require.NoError(t, old.Release())
	pk := receive(t, p, "yours", 0)
	require.Equal(t, "yours", string(pk.Bytes()))
	stalePacketIsHarmless(t, p, old)
	staleBufferIsHarmless(t, buf)
	require.Equal(t, "yours", string(pk.Bytes()))
	require.NoError(t, pk.Release())
}

func TestRetainNeedsAsManyReleases(t *testing.T) {
	p := tiny(t)
	pk := receive(t, p, "x", 0)
	require.NoError(t, pk.Retain())
	require.NoError(t, pk.Retain())
	for range 2 {
		require.NoError(t, pk.Release())
		require.Equal(t, "x", string(pk.Bytes()))
	}
	require.NoError(t, pk.Release())
	require.False(t, pk.Valid())
	require.ErrorIs(t, pk.Release(), buffers.ErrStale)
}

func TestReferencesDoNotOverflow(t *testing.T) {
	p := tiny(t)
	pk := receive(t, p, "x", 0)
	b := pk.Buffer()
	for range math.MaxUint16 - 1 {
		require.NoError(t, pk.Retain())
		require.NoError(t, b.Retain())
	}
	require.NoError(t, b.Retain())
	require.ErrorIs(t, pk.Retain(), buffers.ErrOverflow)
	require.ErrorIs(t, b.Retain(), buffers.ErrOverflow)
	for range math.MaxUint16 {
		require.NoError(t, pk.Release())
		require.NoError(t, b.Release())
	}
}

func TestBytesCannotBeAppendedInto(t *testing.T) {
	p := tiny(t)
	pk := receiveChain(t, p, "one", "two")
	l, err := receive(t, p, "lent", 0).Lend()
	require.NoError(t, err)
	for _, b := range [][]byte{pk.Bytes(), pk.Room(), pk.Buffer().Bytes(), l.Bytes(), p.Memory(0)} {
		require.Equal(t, len(b), cap(b))
	}
	require.NoError(t, pk.Release())
	require.NoError(t, l.Release())
}

func TestChain(t *testing.T) {
	p := tiny(t)
	pk := receiveChain(t, p, "one,", "", "two,", "three")
	require.Equal(t, 13, pk.Len())
	require.Equal(t, 4, pk.NumBuffers())
	require.Equal(t, "one,", string(pk.Bytes()))
	require.Equal(t, "one,two,three", text(pk))
	dst := make([]byte, 6)
	require.Equal(t, 6, pk.CopyTo(dst))
	require.Equal(t, "one,tw", string(dst))
	for s := range pk.Segments() {
		require.Equal(t, "one,", string(s))
		break
	}
	require.NoError(t, pk.Release())
}

func TestReleaseInsideSegments(t *testing.T) {
	p := tiny(t)
	pk := receiveChain(t, p, "one", "two")
	n := 0
	for range pk.Segments() {
		n++
		require.NoError(t, pk.Release())
	}
	require.Equal(t, 1, n)
}

func TestAppendOfChains(t *testing.T) {
	p := tiny(t)
	head, tail := receiveChain(t, p, "a", "b"), receiveChain(t, p, "c", "d")
	require.Equal(t, head, p.Append(head, tail))
	require.Equal(t, "abcd", text(head))
	require.Equal(t, 4, head.NumBuffers())
	stalePacketIsHarmless(t, p, tail)
	require.NoError(t, head.Release())

	pk := receive(t, p, "x", 0)
	require.Equal(t, pk, p.Append(buffers.Packet{}, pk))
	require.Equal(t, pk, p.Append(pk, buffers.Packet{}))
	panics(t, "is head and tail", func() { p.Append(pk, pk) })
	shared := receive(t, p, "y", 0)
	require.NoError(t, shared.Retain())
	panics(t, "is held with 2 references", func() { p.Append(pk, shared) })
	require.NoError(t, shared.Release())
	sent, err := p.Transmit(shared)
	require.NoError(t, err)
	panics(t, "is transmitting", func() { p.Append(pk, sent) })
	require.NoError(t, sent.Release())
	panics(t, "handle has generation", func() { p.Append(pk, sent) })
	require.NoError(t, pk.Release())
}

// One buffer in the middle of a chain outlives it.
func TestRetainedMiddleBuffer(t *testing.T) {
	p := tiny(t)
	pk := receiveChain(t, p, "first", "middle", "last")
	mid, ok := pk.Buffer().Next()
	require.True(t, ok)
	require.ErrorIs(t, mid.Release(), buffers.ErrStale, "the packet's own reference is not the buffer's to give")
	require.NoError(t, mid.Retain())
	require.NoError(t, mid.Retain())
	require.NoError(t, pk.Release())

	require.Equal(t, buffers.Ledger{Free: 5, Held: 1, Total: 6}, p.Ledger())
	require.Equal(t, "middle", string(mid.Bytes()))
	_, ok = mid.Next()
	require.False(t, ok, "the chain is gone")
	others := receiveChain(t, p, "a", "b", "c")
	require.Equal(t, "middle", string(mid.Bytes()))
	require.NoError(t, mid.Release())
	require.Equal(t, "middle", string(mid.Bytes()))
	require.NoError(t, mid.Release())
	staleBufferIsHarmless(t, mid)
	require.NoError(t, others.Release())
}

func TestBufferReleasedBeforeItsPacket(t *testing.T) {
	p := tiny(t)
	pk := receive(t, p, "x", 0)
	b := pk.Buffer()
	require.NoError(t, b.Retain())
	require.NoError(t, b.Release())
	require.ErrorIs(t, b.Release(), buffers.ErrStale)
	require.Equal(t, "x", string(pk.Bytes()))
	require.NoError(t, pk.Release())
}

// Reading with Bytes and Pull alone gets everything, whatever the steps.
func TestPull(t *testing.T) {
	for step := 1; step <= 12; step++ {
		p := tiny(t)
		pk := receiveChain(t, p, "", "abc", "", "defghijk")
		require.NoError(t, pk.Pull(0))
		var got []byte
		for pk.Len() > 0 {
			require.NotEmpty(t, pk.Bytes())
			require.Equal(t, "abcdefghijk", string(got)+text(pk))
			n := min(step, pk.Len())
			head := make([]byte, n)
			pk.CopyTo(head)
			got = append(got, head...)
			require.NoError(t, pk.Pull(n))
			require.NoError(t, p.Verify())
		}
		require.Equal(t, "abcdefghijk", string(got))
		require.Equal(t, 4, pk.NumBuffers(), "Pull frees nothing")
		require.NotNil(t, pk.Bytes())
		require.ErrorContains(t, pk.Pull(1), "n is 1, must be 0 to 0")
		require.ErrorContains(t, pk.Pull(-1), "n is -1")
		require.NoError(t, pk.Release())
	}
}

// Bytes that arrive after everything was read are at the front again.
func TestAppendAfterPull(t *testing.T) {
	p := tiny(t)
	pk := receiveChain(t, p, "ab", "cd")
	require.NoError(t, pk.Pull(4))
	pk = p.Append(pk, receive(t, p, "ef", 0))
	require.Equal(t, "ef", string(pk.Bytes()))
	require.Equal(t, "ef", string(pk.Buffer().Bytes()))

	tail := receive(t, p, "gh", 0)
	require.NoError(t, tail.Pull(1))
	pk = p.Append(pk, tail)
	require.Equal(t, "efh", text(pk))
	require.NoError(t, pk.Release())

	// A tail that was read beyond its first buffer brings only what is left of it.
	tail = receiveChain(t, p, "ab", "cd")
	require.NoError(t, tail.Pull(3))
	pk = p.Append(receive(t, p, "x", 0), tail)
	require.Equal(t, "xd", text(pk))
	require.Equal(t, 2, pk.Len())
	require.NoError(t, p.Verify())
	require.NoError(t, pk.Release())
}

func TestPullMovesRetainedBuffers(t *testing.T) {
	p := tiny(t)
	pk := receiveChain(t, p, "abc", "def")
	first := pk.Buffer()
	require.NoError(t, first.Retain())
	require.NoError(t, pk.Pull(1))
	require.Equal(t, "bc", string(first.Bytes()))
	require.NoError(t, pk.Pull(3))
	require.NotNil(t, first.Bytes())
	require.Empty(t, first.Bytes(), "all of it was read")
	second, ok := first.Next()
	require.True(t, ok)
	require.Equal(t, "ef", string(second.Bytes()))
	require.NoError(t, pk.Release())
	require.Empty(t, first.Bytes())
	require.NoError(t, p.Verify())
	require.NoError(t, first.Release())
}

func TestSharedPacketsDoNotChange(t *testing.T) {
	p := tiny(t)
	pk := receive(t, p, "abc", 0)
	require.NoError(t, pk.Retain())
	require.ErrorIs(t, pk.Pull(1), buffers.ErrShared)
	require.ErrorIs(t, pk.SetLen(1), buffers.ErrShared)
	require.Nil(t, pk.Room())
	l, err := pk.Lend()
	require.NoError(t, err)
	require.ErrorIs(t, pk.Pull(1), buffers.ErrShared)
	require.NoError(t, l.Release())
	require.NoError(t, pk.Pull(1), "alone again, without a Reclaim")
	require.Equal(t, "bc", string(pk.Bytes()))
	require.NoError(t, pk.Release())
}

func TestRoomAndSetLen(t *testing.T) {
	p := tiny(t)
	pk, err := p.Alloc(0)
	require.NoError(t, err)
	require.Empty(t, pk.Bytes())
	room := pk.Room()
	require.GreaterOrEqual(t, len(room), 100)
	n := copy(room, "hello")
	require.NoError(t, pk.SetLen(n))
	require.Equal(t, "hello", string(pk.Bytes()))
	require.ErrorContains(t, pk.SetLen(-1), "n is -1")
	require.ErrorIs(t, pk.SetLen(len(room)+1), buffers.ErrSize)
	require.NoError(t, pk.SetLen(len(room)))
	require.True(t, bytes.HasPrefix(pk.Bytes(), []byte("hello")))

	require.NoError(t, pk.SetLen(5))
	pk = p.Append(pk, receive(t, p, " world", 0))
	require.NoError(t, pk.SetLen(4))
	require.Equal(t, "hell world", text(pk))
	require.Equal(t, 10, pk.Len())
	require.NoError(t, pk.Release())
}
