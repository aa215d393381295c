package tops

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

func quote() []byte {
	m := make([]byte, 42)
	m[0] = TypeQuote
	binary.LittleEndian.PutUint64(m[10:], 1)
	binary.LittleEndian.PutUint32(m[18:], 2)
	binary.LittleEndian.PutUint64(m[22:], 3)
	binary.LittleEndian.PutUint64(m[30:], 4)
	binary.LittleEndian.PutUint32(m[38:], 5)
	return m
}

func TestQuote(t *testing.T) {
	q, err := ParseQuote(quote())
	require.NoError(t, err)
	require.Equal(t, Quote{Symbol: 1, BidSize: 2, BidPrice: 3, AskPrice: 4, AskSize: 5}, q)
	require.Equal(t, quote(), q.Append(nil))
	_, err = ParseQuote(quote()[:41])
	require.ErrorIs(t, err, ErrShort)
	require.EqualError(t, err, "tops: message shorter than its type: type 81 (0x51, 'Q') at byte 0: have 41, want 42")
	_, err = ParseQuote(make([]byte, 42))
	require.ErrorIs(t, err, ErrType)
	_, err = ParseQuote(nil)
	require.ErrorIs(t, err, ErrShort)
}

func FuzzQuote(f *testing.F) {
	f.Add(quote())
	f.Fuzz(func(t *testing.T, m []byte) {
		if q, err := ParseQuote(m); err == nil {
			require.Equal(t, m[:42], q.Append(nil))
		}
	})
}

var sink int64 // keeps the compiler from leaving out what is measured

func decode(m []byte) {
	q, err := ParseQuote(m)
	if err != nil {
		return
	}
	sink += q.BidPrice + q.AskPrice
}

// BenchmarkParseQuote reads every field of one message.
func BenchmarkParseQuote(b *testing.B) {
	m := quote()
	b.ReportAllocs()
	for b.Loop() {
		decode(m)
	}
}

func TestParsingDoesNotAllocate(t *testing.T) {
	m := quote()
	require.Zero(t, testing.AllocsPerRun(100, func() { decode(m) }))
}
