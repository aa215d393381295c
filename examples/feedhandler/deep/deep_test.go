package deep

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLevelAndTrade(t *testing.T) {
	m := AppendLevel(nil, true, true, 99, 0x2020202020495a, 250, 990500)
	require.Len(t, m, 30)
	l, ok := ParseLevel(m)
	require.True(t, ok)
	require.True(t, l.Buy())
	require.True(t, l.Complete())
	require.Equal(t, []int64{99, 0x2020202020495a, 250, 990500},
		[]int64{l.Time(), int64(l.Symbol()), int64(l.Size()), l.Price()})
	sell, ok := ParseLevel(AppendLevel(nil, false, false, 0, 0, 0, -5))
	require.True(t, ok)
	require.False(t, sell.Buy())
	require.False(t, sell.Complete())
	require.Equal(t, int64(-5), sell.Price())
	_, ok = ParseLevel(m[:29])
	require.False(t, ok)

	m = AppendTrade(nil, 1, 2, 300, 400, 5)
	require.Len(t, m, 38)
	tr, ok := ParseTrade(m)
	require.True(t, ok)
	require.Equal(t, []int64{2, 300, 400}, []int64{int64(tr.Symbol()), int64(tr.Size()), tr.Price()})
	_, ok = ParseTrade(m[:37])
	require.False(t, ok)
}

func FuzzMessages(f *testing.F) {
	f.Add(AppendLevel(nil, true, true, 99, 7, 250, 990500))
	f.Add(AppendTrade(nil, 1, 2, 300, 400, 5))
	f.Fuzz(func(t *testing.T, m []byte) {
		if l, ok := ParseLevel(m); ok {
			require.GreaterOrEqual(t, len(m), 30)
			l.Price()
		}
		if tr, ok := ParseTrade(m); ok {
			require.GreaterOrEqual(t, len(m), 38)
			tr.Price()
		}
	})
}
