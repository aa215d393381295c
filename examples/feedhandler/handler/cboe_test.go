package handler

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/feed/book"
	"github.com/socketxtreme/socketxtreme/feed/pitch"
)

// An order that is executed at another price or size has the size that the message says, whatever was executed.
func TestPITCHExecutionAtSizeLeavesTheRemainingSize(t *testing.T) {
	c, err := NewChannel(Config{Proto: PITCH, Lines: feedLines[:1], Feed: feed.Config{CopyBytes: 512}})
	require.NoError(t, err)
	message := func(n, kind byte, fields map[int]byte) []byte {
		m := make([]byte, n)
		m[0], m[1], m[6] = n, kind, 7 // order 7
		for at, v := range fields {
			m[at] = v
		}
		return m
	}
	seq := byte(0)
	input := func(m []byte) {
		seq++
		c.Input(0, append([]byte{pitch.HeaderLen + byte(len(m)), 0, 1, 1, seq, 0, 0, 0}, m...), int64(seq), Ref{})
	}
	input(message(34, pitch.TypeAddOrderLong, map[int]byte{14: 'B', 15: 100, 19: 'X', 20: ' ', 21: ' ', 22: ' ', 23: ' ', 24: ' ', 25: 9}))
	input(message(38, pitch.TypeOrderExecutedAtPrice, map[int]byte{14: 10, 18: 50})) // 10 executed, 50 remain
	require.Equal(t, book.Level{Price: 9, Size: 50, Orders: 1}, c.books.Find(feed.SymbolOf("X")).Bid.Best())
	input(message(38, pitch.TypeOrderExecutedAtPrice, map[int]byte{14: 10}))
	require.Zero(t, c.orders.Len())
	require.Equal(t, uint64(20), c.volume)
}
