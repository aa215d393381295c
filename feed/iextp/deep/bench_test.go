package deep

import (
	"testing"

	"github.com/stretchr/testify/require"
)

var sink int64 // keeps the compiler from leaving out what is measured

func decode(m []byte) {
	l, err := ParsePriceLevel(m)
	if err != nil {
		return
	}
	sink += l.Price + int64(l.Size)
}

// BenchmarkParsePriceLevel reads every field of one message.
func BenchmarkParsePriceLevel(b *testing.B) {
	m := PriceLevel{Buy: true, Symbol: 7, Size: 100, Price: 990500}.Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		decode(m)
	}
}

func TestParsingDoesNotAllocate(t *testing.T) {
	level, trade := PriceLevel{Size: 100}.Append(nil), Trade{Size: 100}.Append(nil)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		decode(level)
		tr, _ := ParseTrade(trade)
		sink += tr.Price
	}))
}
