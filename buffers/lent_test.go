package buffers_test

import (
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/stretchr/testify/require"
)

func lend(t *testing.T, pk buffers.Packet) buffers.Lent {
	t.Helper()
	l, err := pk.Lend()
	require.NoError(t, err)
	return l
}

func TestLend(t *testing.T) {
	p := tiny(t)
	pk := receiveChain(t, p, "one,", "two")
	require.NoError(t, pk.Pull(1))
	l := lend(t, pk)
	stalePacketIsHarmless(t, p, pk)
	require.Equal(t, "ne,", string(l.Bytes()))
	require.Equal(t, 6, l.Len())
	require.Equal(t, 2, p.Ledger().Lent)
	require.NoError(t, l.Retain())
	require.NoError(t, l.Release())
	require.True(t, l.Valid())
	require.Zero(t, p.Reclaim())

	called := 0
	p.SetReturnCallback(func() { called++ })
	require.NoError(t, l.Release())
	require.Equal(t, 1, called)
	staleLentIsHarmless(t, l)
	require.Equal(t, 1, called)
	require.EqualValues(t, 2, p.Stats().StaleReleases, "one as a packet, one as a lent packet")
	require.Equal(t, 2, p.Ledger().Lent, "until the owner takes it back")
	require.Equal(t, 2, p.Reclaim())
	require.Zero(t, p.Reclaim())
	require.Equal(t, buffers.Stats{StaleReleases: 2, StaleUses: 5, Loans: 1, Returned: 2}, p.Stats())

	p.SetReturnCallback(nil)
	require.NoError(t, lend(t, receive(t, p, "x", 0)).Release())
	require.Equal(t, 1, called)
}

// A stale lent handle stays stale when the same buffer is lent again.
func TestDoubleReleaseOfLent(t *testing.T) {
	p := tiny(t)
	first := lend(t, receive(t, p, "x", 0))
	require.NoError(t, first.Release())
	require.Equal(t, 1, p.Reclaim())
	second := lend(t, receive(t, p, "y", 0))
	require.ErrorIs(t, first.Release(), buffers.ErrStale)
	require.ErrorIs(t, first.Retain(), buffers.ErrStale)
	require.Nil(t, first.Bytes())
	require.Equal(t, "y", string(second.Bytes()))
	require.NoError(t, second.Release())
}

// Owner and others have the same packet: the last release frees it.
func TestSharedLoan(t *testing.T) {
	for _, ownerFirst := range []bool{true, false} {
		p := tiny(t)
		pk := receive(t, p, "x", 0)
		require.NoError(t, pk.Retain())
		require.NoError(t, pk.Retain())
		l1, l2 := lend(t, pk), lend(t, pk)
		require.Equal(t, 1, p.Ledger().Held)
		require.Equal(t, "x", string(pk.Bytes()))
		if ownerFirst {
			require.NoError(t, pk.Release())
			require.Equal(t, 1, p.Ledger().Lent)
			require.False(t, pk.Valid())
		}
		require.NoError(t, l1.Release())
		require.NoError(t, l2.Release())
		require.ErrorIs(t, l2.Release(), buffers.ErrStale, "even while the owner's reference remains")
		require.ErrorIs(t, l2.Retain(), buffers.ErrStale)
		if ownerFirst {
			require.Equal(t, 1, p.Reclaim())
			continue
		}
		require.Zero(t, p.Reclaim(), "the owner still has it")
		require.Equal(t, "x", string(pk.Bytes()))
		l3 := lend(t, pk)
		require.False(t, l1.Valid(), "a new loan")
		require.False(t, pk.Valid(), "the last reference was given")
		require.NoError(t, l3.Release())
	}
}

func TestLastReferenceGivenDuringALoan(t *testing.T) {
	p := tiny(t)
	pk := receive(t, p, "x", 0)
	require.NoError(t, pk.Retain())
	l1 := lend(t, pk)
	l2 := lend(t, pk)
	require.False(t, pk.Valid())
	require.Equal(t, buffers.Ledger{Free: 5, Lent: 1, Total: 6}, p.Ledger())
	require.NoError(t, p.Verify())
	require.NoError(t, l1.Release())
	require.Equal(t, "x", string(l2.Bytes()))
	require.NoError(t, l2.Release())
	require.Equal(t, 1, p.Reclaim())
}

func TestBufferOutlivesALoan(t *testing.T) {
	p := tiny(t)
	pk := receiveChain(t, p, "a", "b")
	b := pk.Buffer()
	require.NoError(t, b.Retain())
	require.NoError(t, lend(t, pk).Release())
	require.Equal(t, 2, p.Reclaim())
	require.Equal(t, "a", string(b.Bytes()))
	require.Equal(t, buffers.Ledger{Free: 5, Held: 1, Total: 6}, p.Ledger())
	require.NoError(t, b.Release())
}

// Eight goroutines read, retain, pass on and release what one owner lends them, 100,000 packets long. The payload is
// written by the owner and read by the others: under the race detector this proves the ordering as well.
func TestLendToManyGoroutines(t *testing.T) {
	const readers, packets = 8, 100_000
	p := newPool(t, buffers.Layout{SmallSize: 64, SmallCount: 256, Headroom: 0})
	var returned atomic.Int64
	p.SetReturnCallback(func() { returned.Add(1) })

	in, onward := make(chan buffers.Lent, 64), make(chan buffers.Lent, 64)
	var sum, wrong atomic.Uint64
	read := func(l buffers.Lent) {
		b := l.Bytes()
		if len(b) != 8 {
			wrong.Add(1)
			return
		}
		sum.Add(binary.LittleEndian.Uint64(b))
	}
	var first, second sync.WaitGroup
	for range readers / 2 {
		first.Go(func() {
			for l := range in {
				if l.Retain() != nil {
					wrong.Add(1)
				}
				onward <- l
				read(l)
				if l.Release() != nil {
					wrong.Add(1)
				}
			}
		})
		second.Go(func() {
			for l := range onward {
				read(l)
				if l.Release() != nil {
					wrong.Add(1)
				}
			}
		})
	}

	want := uint64(0)
	for n := uint64(1); n <= packets; {
		p.Reclaim()
		i, ok := p.Take(buffers.Small)
		if !ok {
			runtime.Gosched()
			continue
		}
		binary.LittleEndian.PutUint64(p.Memory(i), n)
		pk := p.Fill(i, 0, 8, 0)
		p.Deliver(pk)
		if n%3 == 0 { // the owner keeps reading too, and may be the last
			require.NoError(t, pk.Retain())
		}
		l, err := pk.Lend()
		require.NoError(t, err)
		in <- l
		if n%3 == 0 {
			want += 2 * binary.LittleEndian.Uint64(pk.Bytes())
			require.NoError(t, pk.Release())
		} else {
			want += 2 * n
		}
		n++
	}
	close(in)
	first.Wait()
	close(onward)
	second.Wait()
	p.Reclaim()
	require.Zero(t, wrong.Load())
	require.Equal(t, want, sum.Load())
	require.NoError(t, p.Verify())
	require.Equal(t, buffers.Ledger{Free: 256, Total: 256}, p.Ledger())
	require.EqualValues(t, p.Stats().Returned, returned.Load(), "one call of the hook for each packet that came back")
}

// Of many goroutines that release the same reference exactly one succeeds.
func TestConcurrentDoubleRelease(t *testing.T) {
	p := tiny(t)
	const goroutines, rounds = 8, 500
	for range rounds {
		l := lend(t, receive(t, p, "x", 0))
		var ok atomic.Int32
		var all sync.WaitGroup
		for range goroutines {
			all.Go(func() {
				if l.Release() == nil {
					ok.Add(1)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 1, ok.Load())
		require.Equal(t, 1, p.Reclaim())
	}
	require.EqualValues(t, rounds*(goroutines-1), p.Stats().StaleReleases)
}

// The owner lends a packet again while the other goroutine reads it: neither writes what the other reads.
func TestLendAgainWhileRead(t *testing.T) {
	p := tiny(t)
	pk := receiveChain(t, p, "one,", "two")
	require.NoError(t, pk.Pull(1))
	require.NoError(t, pk.Retain())
	first := lend(t, pk)
	var reader sync.WaitGroup
	started, stop := make(chan struct{}), atomic.Bool{}
	wrong := 0
	reader.Go(func() {
		var dst [16]byte
		for n := 0; n == 0 || !stop.Load(); n++ {
			if n := first.CopyTo(dst[:]); string(dst[:n]) != "ne,two" || first.Len() != 6 {
				wrong++
			}
			for s := range first.Segments() {
				if string(s) != "ne," && string(s) != "two" {
					wrong++
				}
			}
			if n == 0 {
				close(started)
			}
		}
	})
	<-started
	for range 1000 {
		require.NoError(t, pk.Retain())
		require.NoError(t, lend(t, pk).Release())
	}
	stop.Store(true)
	reader.Wait()
	require.Zero(t, wrong)
	require.NoError(t, first.Release())
	require.NoError(t, pk.Release())
	require.NoError(t, p.Verify())
}
