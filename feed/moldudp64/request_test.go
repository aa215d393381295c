package moldudp64

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRequest(t *testing.T) {
	r := Request{Session: "000010059B", Seq: 100, Count: 7}
	b := r.Append(nil)
	require.Len(t, b, HeaderLen)
	got, err := ParseRequest(b)
	require.NoError(t, err)
	require.Equal(t, r, got)
	for name, bad := range map[string][]byte{
		"short":          b[:19],
		"long":           append(b[:20:20], 0),
		"nothing wanted": Request{Seq: 1}.Append(nil),
		"too many":       Request{Seq: 1, Count: EndOfSession}.Append(nil),
		"past the end":   Request{Seq: math.MaxUint64, Count: 2}.Append(nil),
	} {
		_, err := ParseRequest(bad)
		require.ErrorIs(t, err, ErrRequest, name)
	}
}

// A refusal says what is there and what is allowed.
func TestRefusedRequest(t *testing.T) {
	for want, r := range map[string]Request{
		"at byte 18: have 0, want 1":         {Seq: 1},
		"at byte 18: have 65535, want 65534": {Seq: 1, Count: EndOfSession},
		"at byte 10: have 4, want 5":         {Seq: math.MaxUint64 - 4, Count: 5},
	} {
		_, err := ParseRequest(r.Append(nil))
		require.ErrorContains(t, err, want)
	}
	_, err := ParseRequest(Request{Seq: math.MaxUint64 - 5, Count: 5}.Append(nil))
	require.NoError(t, err)
}

func TestSessionName(t *testing.T) {
	for _, s := range []string{"000010059B", "ABCDEFGHIJ", "X         "} {
		h := (*Header)(AppendHeader(nil, s, 1, 0))
		require.Equal(t, s, SessionName(h.SessionKey()))
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add(Request{Session: "SESSION", Seq: 1, Count: 1}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := ParseRequest(b); err == nil {
			require.Equal(t, b, r.Append(nil))
		}
	})
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

func busy(n int) []byte {
	b := AppendHeader(nil, "SESSION", 1, uint16(n))
	for range n {
		b = AppendMessage(b, make([]byte, 36)) // an ITCH add order
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
	require.Equal(t, 10, walk(packet))
	require.Zero(t, testing.AllocsPerRun(100, func() { walk(packet) }))
}
