package pitch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/feed"
)

var golden = []byte{8 + 6 + 26, 0, 2, 1, 9, 0, 0, 0,
	6, TypeTime, 1, 2, 3, 4,
	26, TypeAddOrderShort, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 'B', 100, 0, 'Z', 'V', 'Z', 'Z', 'T', ' ', 0x10, 0x27, 1}

func TestParse(t *testing.T) {
	h, messages, err := Parse(golden)
	require.NoError(t, err)
	require.Equal(t, []int{len(golden), 2, 1, 9}, []int{h.Len(), int(h.Count()), int(h.Unit()), int(h.Seq())})
	m, rest := Next(messages)
	seconds, err := ParseTime(m)
	require.NoError(t, err)
	require.Equal(t, uint32(0x04030201), seconds)
	m, rest = Next(rest)
	a, err := ParseAddOrder(m)
	require.NoError(t, err)
	require.Equal(t, AddOrder{Order: 0x0807060504030201, Symbol: feed.SymbolOf("ZVZZT"), Price: 1_000_000, Shares: 100, Buy: true}, a)
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
	b := append([]byte(nil), golden...)
	b[2] = 1 // fewer messages than there are
	_, _, err = Parse(b)
	require.EqualError(t, err, "pitch: messages do not fill the packet: at byte 14: have 26, want 0")
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
			for _, parse := range parsers {
				if parse(m) == nil {
					require.NoError(t, Check(m))
				}
			}
		}
		require.Equal(t, h.Count(), n)
	})
}

var sink uint64 // keeps the compiler from leaving out what is measured

// walk reads a packet and the orders that it adds.
func walk(b []byte) {
	_, messages, err := Parse(b)
	if err != nil {
		return
	}
	for m, rest := Next(messages); m != nil; m, rest = Next(rest) {
		if a, err := ParseAddOrder(m); err == nil {
			sink += a.Order + uint64(a.Price)
		}
	}
}

// busy is a packet that adds n orders.
func busy(n int) []byte {
	b := []byte{byte(HeaderLen + 26*n), byte((HeaderLen + 26*n) >> 8), byte(n), 1, 1, 0, 0, 0}
	for range n {
		b = append(b, golden[14:]...)
	}
	return b
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
	before := sink
	require.Zero(t, testing.AllocsPerRun(100, func() {
		walk(packet)
		if Check([]byte{2, 0xff}) == nil {
			t.Error("unknown")
		}
	}))
	require.NotEqual(t, before, sink)
}
