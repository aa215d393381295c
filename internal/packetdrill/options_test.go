package packetdrill

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOptionsOnTheWire(t *testing.T) {
	s, err := Parse("x", "0 < S 0:0(0) <mss 1460,sackOK,TS val 1 ecr 2,nop,wscale 7,raw fd0601020304,nop,eol>")
	require.NoError(t, err)
	b := AppendOptions(nil, s.Statements[0].Segment.Options)
	require.Equal(t, []byte{2, 4, 0x5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 3, 3, 7, 0xfd, 6, 1, 2, 3, 4, 1, 0}, b)
	list, ok := ParseOptions(b)
	require.True(t, ok)
	require.Equal(t, s.Statements[0].Segment.Options, list)

	_, ok = ParseOptions([]byte{0, 0, 1, 0})
	require.False(t, ok, "padding that is not zero")
	_, ok = ParseOptions([]byte{1, 1, 5, 11})
	require.False(t, ok, "an option longer than the list")
}
