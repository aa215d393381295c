package buffers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
)

// take takes n small buffers.
func take(t *testing.T, p *buffers.DriverPool, n int) (list []uint32) {
	for range n {
		i, ok := p.Take(buffers.Small)
		require.True(t, ok)
		list = append(list, i)
	}
	return list
}

// A socket is over as soon as it has more than its frames would find on the queue of a card with the fewest buffers.
func TestReadyQueues(t *testing.T) {
	p := newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 64, LargeSize: 4096, LargeCount: 8})
	a, err := p.OpenAccount(0)
	require.NoError(t, err)
	most := func() (n int) { // packets that the account has when it is first over
		var held []buffers.Packet
		for !p.Over(a) {
			held = append(held, p.Fill(take(t, p, 1)[0], 0, 1, a))
		}
		for i := range held {
			p.Deliver(held[i])
			require.NoError(t, held[i].Release())
		}
		return len(held)
	}
	require.Equal(t, 33, most(), "without a queue: more than half of 64")

	queues := []*buffers.ReadyQueue{p.AddReadyQueue(), p.AddReadyQueue(), p.AddReadyQueue()}
	counts := []int{10, 12, 14}
	var ready []uint32
	for i, q := range queues {
		ready = append(ready, take(t, p, counts[i])...)
		q.Set(counts[i])
	}
	require.Equal(t, 64-36, p.Free(buffers.Small))
	require.Equal(t, (28+10)/2+1, most(), "28 are free, and 10 lie on the queue with the fewest")
	require.Equal(t, 64, p.Available(buffers.Small))
	require.True(t, p.CanReceive(buffers.Small))

	// A queue that gets fewer, the one with the fewest that gets more, and less again.
	for _, c := range []struct{ queue, count, fewest int }{{2, 6, 6}, {2, 14, 10}, {0, 13, 12}, {0, 2, 2}, {0, 10, 10}, {1, 10, 10}, {1, 12, 10}} {
		lay(t, p, queues[c.queue], &counts[c.queue], c.count, &ready)
		require.Equal(t, (p.Free(buffers.Small)+c.fewest)/2+1, most(), "%v", c)
	}

	queues[0].Remove()
	for _, i := range ready[:10] {
		p.Return(i)
	}
	require.Equal(t, (38+12)/2+1, most(), "the queue with the fewest is removed")
	queues[2].Remove()
	for _, i := range ready[10:24] {
		p.Return(i)
	}
	require.Equal(t, 33, most(), "one queue: all its buffers count")
	queues[1].Remove()
	for _, i := range ready[24:] {
		p.Return(i)
	}
	require.Equal(t, 33, most())
	require.NoError(t, p.Verify())
}

// lay makes count the number of buffers that lie ready on the queue; ready are those of all queues.
func lay(t *testing.T, p *buffers.DriverPool, q *buffers.ReadyQueue, was *int, count int, ready *[]uint32) {
	for ; *was < count; *was++ {
		*ready = append(*ready, take(t, p, 1)...)
	}
	for ; *was > count; *was-- {
		p.Return((*ready)[len(*ready)-1])
		*ready = (*ready)[:len(*ready)-1]
	}
	q.Set(count)
}
