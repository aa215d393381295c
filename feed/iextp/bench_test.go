package iextp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// busy is a packet with n messages of 30 bytes, the length of a DEEP price level.
func busy(n int) []byte {
	b := AppendHeader(nil, Segment{Protocol: DEEP10, Channel: 1, Session: 1, Seq: 1})
	for range n {
		b = AppendMessage(b, make([]byte, 30))
	}
	Finish(b, n)
	return b
}

// walk reads a packet and each of its messages.
func walk(b []byte) (n int) {
	_, messages, err := Parse(b)
	if err != nil {
		return -1
	}
	for m, rest := Next(messages); m != nil; m, rest = Next(rest) {
		n++
	}
	return n
}

// BenchmarkParse is one message of a packet with ten.
func BenchmarkParse(b *testing.B) {
	packet := busy(10)
	b.ReportAllocs()
	for i := 0; i < b.N; i += 10 {
		walk(packet)
	}
}

func TestParsingDoesNotAllocate(t *testing.T) {
	packet := busy(10)
	require.Equal(t, 10, walk(packet))
	require.Zero(t, testing.AllocsPerRun(100, func() { walk(packet) }))
}
