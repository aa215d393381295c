package handoff

import (
	"encoding/binary"
	"math"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/udp"
)

func queuePool(t testing.TB, n int) *buffers.DriverPool {
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
func received(t testing.TB, pool *buffers.DriverPool, number uint64) udp.Delivery {
	i, ok := pool.Take(buffers.Small)
	require.True(t, ok)
	binary.LittleEndian.PutUint64(pool.Memory(i)[256:], number)
	return udp.Delivery{Packet: pool.Fill(i, 256, 8, 0), To: 1, Owner: number}
}

// copyAll is a consumer's turn.
func copyAll(q *Queue, f func(x udp.Delivery, payload []byte)) bool {
	n := q.Begin(math.MaxInt)
	if n == 0 {
		return false
	}
	for i := range n {
		x, payload := q.At(i)
		f(x, payload)
	}
	q.End(n)
	return true
}

// Indexes wrap; what is read is what was put, in order; buffers return to the pool when they were read and not before.
func TestQueue(t *testing.T) {
	pool := queuePool(t, 256)
	q := newQueue(pool, &Port{wake: func() {}})
	require.Len(t, q.slots, 64, "a quarter of the pool")
	start := uint32(math.MaxUint32 - 100)
	q.next, q.freed = start, start
	q.tail.Store(start)
	q.head.Store(start)
	number, read := uint64(0), uint64(0)
	for range 10 {
		for !q.isFull() {
			x := received(t, pool, number)
			q.push(pool, &x, 0)
			number++
		}
		require.False(t, q.IsReady(), "not published yet")
		q.publish()
		n, unread := q.reclaim()
		require.Zero(t, n+unread)
		require.Equal(t, 64, pool.Ledger().Received)
		require.True(t, copyAll(q, func(x udp.Delivery, payload []byte) {
			require.Equal(t, read, binary.LittleEndian.Uint64(payload))
			require.Equal(t, read, x.Owner)
			read++
		}))
		n, unread = q.reclaim()
		require.Equal(t, 64, n)
		require.Zero(t, unread)
		require.Zero(t, pool.Ledger().Received)
	}
	// Whichever ring leaves: the buffers return to the pool, unread frames are counted, and nothing more is read.
	x := received(t, pool, number)
	q.push(pool, &x, 0)
	q.publish()
	q.closeByProducer()
	require.False(t, q.IsReady())
	require.Zero(t, q.Begin(1))
	n, unread := q.reclaim()
	require.Equal(t, 1, n)
	require.Equal(t, 1, unread)
	n, unread = q.reclaim()
	require.Zero(t, n+unread, "counted once")
}

// Two goroutines, and the producer leaves in the middle: its memory is written over at once, which the race detector would see read.
func TestQueueUnderRace(t *testing.T) {
	for range 50 {
		pool := queuePool(t, 64)
		q := newQueue(pool, &Port{wake: func() {}})
		var reading sync.WaitGroup
		reading.Go(func() {
			next := uint64(0)
			for !q.closed.Load() {
				copyAll(q, func(x udp.Delivery, payload []byte) {
					if got := binary.LittleEndian.Uint64(payload); got != next || x.Owner != next {
						t.Errorf("%d and %d, want %d", got, x.Owner, next)
					}
					next++
				})
				runtime.Gosched()
			}
		})
		for number := uint64(0); number < 500; {
			if q.isFull() {
				q.reclaim()
				runtime.Gosched()
				continue
			}
			x := received(t, pool, number)
			q.push(pool, &x, 0)
			q.publish()
			number++
		}
		q.closeByProducer()
		q.reclaim()
		for i := range uint32(64) {
			clear(pool.Memory(i))
		}
		reading.Wait()
	}
}

func TestQueueDoesNotAllocate(t *testing.T) {
	pool := queuePool(t, 256)
	q := newQueue(pool, &Port{wake: func() {}})
	dst := make([]byte, 2048)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		i, _ := pool.Take(buffers.Small)
		x := udp.Delivery{Packet: pool.Fill(i, 256, 64, 0), To: 1}
		q.push(pool, &x, 0)
		q.publish()
		copyAll(q, func(_ udp.Delivery, payload []byte) { copy(dst, payload) })
		q.reclaim()
	}))
}

// What it costs to take a datagram to another ring, both sides together on one processor: the copy with warm caches.
func BenchmarkQueue(b *testing.B) {
	for _, size := range []int{64, 1400} {
		b.Run(map[int]string{64: "64", 1400: "1400"}[size], func(b *testing.B) {
			pool := queuePool(b, 256)
			q := newQueue(pool, &Port{wake: func() {}})
			dst := make([]byte, 2048)
			b.ReportAllocs()
			for range b.N {
				i, _ := pool.Take(buffers.Small)
				x := udp.Delivery{Packet: pool.Fill(i, 256, size, 0), To: 1}
				q.push(pool, &x, 0)
				q.publish()
				copyAll(q, func(_ udp.Delivery, payload []byte) { copy(dst, payload) })
				q.reclaim()
			}
		})
	}
}
