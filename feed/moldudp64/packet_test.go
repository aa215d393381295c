package moldudp64

import (
	"testing"

	"github.com/stretchr/testify/require"
)

var golden = append([]byte("000010059B"), 0, 0, 0, 0, 0, 0xe1, 0x2e, 0x85, 0, 2, 0, 3, 'a', 'b', 'c', 0, 1, 'd')

func TestParse(t *testing.T) {
	h, blocks, err := Parse(golden)
	require.NoError(t, err)
	require.Equal(t, "000010059B", h.Session())
	require.Equal(t, uint64(14757509), h.Seq())
	require.Equal(t, uint32(2), h.Count())
	require.False(t, h.End())
	m, rest := Next(blocks)
	require.Equal(t, "abc", string(m))
	m, rest = Next(rest)
	require.Equal(t, "d", string(m))
	m, _ = Next(rest)
	require.Nil(t, m)
	require.Equal(t, golden, AppendMessage(AppendMessage(AppendHeader(nil, "000010059B", 14757509, 2), []byte("abc")),
		[]byte("d")))
	for cut := range golden {
		_, _, err := Parse(golden[:cut])
		require.Error(t, err, "%d bytes", cut)
	}
	end, blocks, err := Parse(AppendHeader(nil, "X", 5, EndOfSession))
	require.NoError(t, err)
	require.True(t, end.End())
	require.Zero(t, end.Count())
	require.Empty(t, blocks)
	require.NotEqual(t, end.SessionKey(), h.SessionKey())
}

func FuzzParse(f *testing.F) {
	f.Add(golden)
	f.Add(AppendHeader(nil, "SESSION", 1, EndOfSession))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, blocks, err := Parse(b)
		if err != nil {
			return
		}
		n := uint32(0)
		for m, rest := Next(blocks); m != nil; m, rest = Next(rest) {
			n++
		}
		require.Equal(t, h.Count(), n)
	})
}
