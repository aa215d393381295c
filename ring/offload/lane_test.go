package offload

import (
	"encoding/binary"
	"math"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/stack"
)

func lanePool(t testing.TB, n int) *buffers.Pool {
	l := buffers.Layout{SmallSize: 2048, SmallCount: n, Headroom: 192}
	pool, err := buffers.New(make([]byte, l.Bytes()), l)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.Equal(t, n, pool.Ledger().Free, "%v", pool.Ledger())
		require.NoError(t, pool.Verify())
	})
	return pool
}

// received is a packet as a stack hands it over.
func received(t testing.TB, pool *buffers.Pool, number uint64) stack.Delivery {
	i, ok := pool.Take(buffers.Small)
	require.True(t, ok)
	binary.LittleEndian.PutUint64(pool.Memory(i)[256:], number)
	return stack.Delivery{Packet: pool.Fill(i, 256, 8, 0), To: 1, Owner: number}
}

// copyAll is a consumer's turn.
func copyAll(l *lane, f func(s *slot, payload []byte)) bool {
	if !l.ready() || !l.begin() {
		return false
	}
	head := l.head.Load()
	for ; head != l.tail.Load(); head++ {
		s := &l.slots[head&l.mask]
		f(s, l.region[s.off:s.off+s.len])
	}
	l.end(head)
	return true
}

// Indexes wrap; what is read is what was put, in order; buffers come home when they were read and not before.
func TestLane(t *testing.T) {
	pool := lanePool(t, 256)
	l := newLane(pool, &driver{})
	require.Len(t, l.slots, 64, "a quarter of the pool")
	start := uint32(math.MaxUint32 - 100)
	l.next, l.freed = start, start
	l.tail.Store(start)
	l.head.Store(start)
	number, read := uint64(0), uint64(0)
	for range 10 {
		for !l.full() {
			x := received(t, pool, number)
			l.put(pool, &x)
			number++
		}
		require.False(t, l.ready(), "not published yet")
		l.publish()
		n, unread := l.reclaim()
		require.Zero(t, n+unread)
		require.Equal(t, 64, pool.Ledger().Received)
		require.True(t, copyAll(l, func(s *slot, payload []byte) {
			require.Equal(t, read, binary.LittleEndian.Uint64(payload))
			require.Equal(t, read, s.owner)
			read++
		}))
		n, unread = l.reclaim()
		require.Equal(t, 64, n)
		require.Zero(t, unread)
		require.Zero(t, pool.Ledger().Received)
	}
	// Whoever leaves: the buffers come home, what nobody read is counted, and nothing more is read.
	x := received(t, pool, number)
	l.put(pool, &x)
	l.publish()
	l.shut()
	require.False(t, l.ready())
	require.False(t, l.begin())
	n, unread := l.reclaim()
	require.Equal(t, 1, n)
	require.Equal(t, 1, unread)
	n, unread = l.reclaim()
	require.Zero(t, n+unread, "counted once")
}

// Two goroutines, and the producer leaves in the middle: its memory is written over at once, which the race detector would see read.
func TestLaneUnderRace(t *testing.T) {
	for range 50 {
		pool := lanePool(t, 64)
		l := newLane(pool, &driver{})
		var reading sync.WaitGroup
		reading.Go(func() {
			next := uint64(0)
			for !l.closed.Load() {
				copyAll(l, func(s *slot, payload []byte) {
					if got := binary.LittleEndian.Uint64(payload); got != next || s.owner != next {
						t.Errorf("%d and %d, want %d", got, s.owner, next)
					}
					next++
				})
				runtime.Gosched()
			}
		})
		for number := uint64(0); number < 500; {
			if l.full() {
				l.reclaim()
				runtime.Gosched()
				continue
			}
			x := received(t, pool, number)
			l.put(pool, &x)
			l.publish()
			number++
		}
		l.shut()
		l.reclaim()
		for i := range uint32(64) {
			clear(pool.Memory(i))
		}
		reading.Wait()
	}
}

func TestLaneDoesNotAllocate(t *testing.T) {
	pool := lanePool(t, 256)
	l := newLane(pool, &driver{})
	dst := make([]byte, 2048)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		i, _ := pool.Take(buffers.Small)
		x := stack.Delivery{Packet: pool.Fill(i, 256, 64, 0), To: 1}
		l.put(pool, &x)
		l.publish()
		copyAll(l, func(_ *slot, payload []byte) { copy(dst, payload) })
		l.reclaim()
	}))
}

// What it costs to take a datagram to another ring, both sides together on one processor: the copy with warm caches.
func BenchmarkHandOver(b *testing.B) {
	for _, size := range []int{64, 1400} {
		b.Run(map[int]string{64: "64", 1400: "1400"}[size], func(b *testing.B) {
			pool := lanePool(b, 256)
			l := newLane(pool, &driver{})
			dst := make([]byte, 2048)
			b.ReportAllocs()
			for range b.N {
				i, _ := pool.Take(buffers.Small)
				x := stack.Delivery{Packet: pool.Fill(i, 256, size, 0), To: 1}
				l.put(pool, &x)
				l.publish()
				copyAll(l, func(_ *slot, payload []byte) { copy(dst, payload) })
				l.reclaim()
			}
		})
	}
}
