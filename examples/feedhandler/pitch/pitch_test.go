package pitch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

var golden = []byte{8 + 6 + 26, 0, 2, 1, 9, 0, 0, 0,
	6, Time, 1, 2, 3, 4,
	26, AddShort, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 'B', 100, 0, 'Z', 'V', 'Z', 'Z', 'T', ' ', 0x10, 0x27, 1}

func TestParse(t *testing.T) {
	h, messages, err := Parse(golden)
	require.NoError(t, err)
	require.Equal(t, []int{len(golden), 2, 1, 9}, []int{h.Len(), int(h.Count()), int(h.Unit()), int(h.Seq())})
	m, rest := Next(messages)
	require.False(t, Known(m), "time is nothing for a book")
	m, rest = Next(rest)
	require.True(t, Known(m))
	buy, shares, symbol, price := Add(m)
	require.True(t, buy)
	require.Equal(t, []uint64{100, 0x0807060504030201, 1_000_000}, []uint64{uint64(shares), Order(m), uint64(price)})
	require.Equal(t, uint64('Z')|'V'<<8|'Z'<<16|'Z'<<24|'T'<<32|' '<<40|' '<<48|' '<<56, symbol)
	m, _ = Next(rest)
	require.Nil(t, m)
	for cut := range golden {
		_, _, err := Parse(golden[:cut])
		require.Error(t, err, "%d bytes", cut)
	}
	for _, n := range []byte{0, 1, 200} { // a length that goes nowhere, or too far
		b := append([]byte(nil), golden...)
		b[8] = n
		_, _, err := Parse(b)
		require.ErrorIs(t, err, ErrLength)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(golden)
	f.Fuzz(func(t *testing.T, b []byte) {
		h, messages, err := Parse(b)
		if err != nil {
			return
		}
		n := uint32(0)
		for m, rest := Next(messages); m != nil; m, rest = Next(rest) {
			n++
			if !Known(m) {
				continue
			}
			Order(m)
			switch m[1] {
			case AddLong, AddShort:
				Add(m)
			case Executed, ExecutedAtPrice, ReduceLong, ReduceShort:
				Shares(m)
			case ModifyLong, ModifyShort:
				Modify(m)
			case TradeLong, TradeShort:
				TradeShares(m)
			}
		}
		require.Equal(t, h.Count(), n)
	})
}
