package itch50

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAdd(t *testing.T) {
	m := append([]byte{Add, 0, 13, 0, 0, 0x0a, 0x37, 0xce, 0xa3, 0xf0, 0xc9, 0, 0, 0, 0, 0, 0, 1, 2, 'B', 0, 0, 0, 100},
		"AAPL    \x00\x30\xe4\x88"...)
	require.True(t, Known(m))
	require.False(t, Known(m[:35]))
	require.False(t, Known([]byte("?")))
	require.False(t, Known(nil))
	a := ParseAdd(m)
	require.Equal(t, []uint64{258, 100, 3204232}, []uint64{a.Ref(), uint64(a.Shares()), uint64(a.Price())})
	require.True(t, a.Buy())
	require.Equal(t, uint16(13), Locate(m))
	require.Equal(t, int64(0x0a37cea3f0c9), Time(m))
	require.Equal(t, uint64('A')|'A'<<8|'P'<<16|'L'<<24|0x20202020<<32, a.Stock())
}

// FuzzKnown: what Known lets through can be read to its type's end.
func FuzzKnown(f *testing.F) {
	for c, n := range lengths {
		if n > 0 {
			m := make([]byte, n)
			m[0] = byte(c)
			f.Add(m)
		}
	}
	f.Fuzz(func(t *testing.T, m []byte) {
		if !Known(m) {
			return
		}
		Locate(m)
		Time(m)
		switch m[0] {
		case Add, AddMPID:
			a := ParseAdd(m)
			a.Price()
		case Executed, ExecutedAtPrice, Cancel:
			Ref(m)
			Shares19(m)
		case Delete:
			Ref(m)
		case Replace:
			Replacement(m)
		case Trade:
			TradeShares(m)
		}
	})
}
