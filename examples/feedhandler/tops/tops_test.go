package tops

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

func quote() []byte {
	m := make([]byte, 42)
	m[0] = Quote
	binary.LittleEndian.PutUint64(m[10:], 1)
	binary.LittleEndian.PutUint32(m[18:], 2)
	binary.LittleEndian.PutUint64(m[22:], 3)
	binary.LittleEndian.PutUint64(m[30:], 4)
	binary.LittleEndian.PutUint32(m[38:], 5)
	return m
}

func TestQuote(t *testing.T) {
	q, ok := ParseQuote(quote())
	require.True(t, ok)
	require.Equal(t, []int64{1, 2, 3, 4, 5}, []int64{int64(q.Symbol()), int64(q.BidSize()), q.BidPrice(), q.AskPrice(),
		int64(q.AskSize())})
	_, ok = ParseQuote(quote()[:41])
	require.False(t, ok)
	_, ok = ParseQuote(make([]byte, 42))
	require.False(t, ok)
}

func FuzzQuote(f *testing.F) {
	f.Add(quote())
	f.Fuzz(func(t *testing.T, m []byte) {
		if q, ok := ParseQuote(m); ok {
			require.GreaterOrEqual(t, len(m), 42)
			q.AskSize()
		}
	})
}
