package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The indexes go past 2³² while frames are in the queue.
func TestIndexesWrap(t *testing.T) {
	q, err := newQueue(4, 64)
	require.NoError(t, err)
	start := ^uint32(0) - 5
	q.tail.Store(start)
	q.head.Store(start)
	q.next, q.seen = start, start
	for i := range byte(40) {
		for k := range byte(4) {
			slot := q.reserve()
			require.NotNil(t, slot)
			slot[0] = i + k
			q.commit(1)
		}
		require.Nil(t, q.reserve())
		require.Zero(t, q.ready())
		q.publish()
		require.EqualValues(t, 4, q.ready())
		for k := range byte(4) {
			require.Equal(t, i+k, q.slot(q.head.Load())[0])
			q.head.Add(1)
		}
	}
	require.Less(t, q.tail.Load(), uint32(1000), "it did not wrap")
	require.NoError(t, q.leave())
	require.NoError(t, q.leave())
}
