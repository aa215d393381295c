package deep

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/feed"
)

func TestLevelAndTrade(t *testing.T) {
	level := PriceLevel{Buy: true, Complete: true, Time: 99, Symbol: 0x2020202020495a, Size: 250, Price: 990500}
	m := level.Append(nil)
	require.Equal(t, []byte{'8', 1, 99, 0, 0, 0, 0, 0, 0, 0, 'Z', 'I', ' ', ' ', ' ', ' ', ' ', 0, 250, 0, 0, 0,
		0x24, 0x1d, 0x0f, 0, 0, 0, 0, 0}, m)
	got, err := ParsePriceLevel(m)
	require.NoError(t, err)
	require.Equal(t, level, got)
	sell, err := ParsePriceLevel(PriceLevel{Price: -5}.Append(nil))
	require.NoError(t, err)
	require.Equal(t, PriceLevel{Price: -5}, sell)
	_, err = ParsePriceLevel(m[:29])
	require.ErrorIs(t, err, ErrShort)
	require.EqualError(t, err, "deep: message shorter than its type: type 56 (0x38, '8') at byte 0: have 29, want 30")

	trade := Trade{Time: 1, Symbol: 2, Size: 300, Price: 400, ID: 5, Flags: 0x80}
	m = trade.Append(nil)
	require.Len(t, m, 38)
	back, err := ParseTrade(m)
	require.NoError(t, err)
	require.Equal(t, trade, back)
	_, err = ParseTrade(m[:37])
	require.ErrorIs(t, err, ErrShort)
	trade.Break = true
	back, err = ParseTrade(trade.Append(nil))
	require.NoError(t, err)
	require.Equal(t, trade, back)
	_, err = ParsePriceLevel(m)
	require.ErrorIs(t, err, ErrType)
	require.EqualError(t, err, "deep: message of another type: type 84 (0x54, 'T') at byte 0: have 84, want 56")
}

func TestEventAndStatus(t *testing.T) {
	e, err := ParseSystemEvent([]byte{'S', 'R', 7, 0, 0, 0, 0, 0, 0, 0})
	require.NoError(t, err)
	require.Equal(t, SystemEvent{Time: 7, Event: 'R'}, e)
	halt := append([]byte{'O', 'N', 7, 0, 0, 0, 0, 0, 0, 0}, "ZIEXT   "...)
	s, err := ParseStatus(halt)
	require.NoError(t, err)
	require.Equal(t, Status{Time: 7, Symbol: feed.SymbolOf("ZIEXT"), Type: 'O', Code: 'N'}, s)
	_, err = ParseStatus(halt[:17])
	require.ErrorIs(t, err, ErrShort)
	_, err = ParseStatus(PriceLevel{}.Append(nil))
	require.ErrorIs(t, err, ErrType)
	_, err = ParseSystemEvent(halt)
	require.ErrorIs(t, err, ErrType)
}

func TestCheck(t *testing.T) {
	for i, n := range lengths {
		if n == 0 {
			var unknown UnknownTypeError
			require.True(t, errors.As(Check([]byte{byte(i)}), &unknown))
			require.Equal(t, UnknownTypeError(i), unknown)
			continue
		}
		m := make([]byte, n)
		m[0] = byte(i)
		require.NoError(t, Check(m))
		require.ErrorIs(t, Check(m[:n-1]), ErrShort)
		require.NoError(t, Check(append(m, 0)), "fields may be appended")
	}
	require.ErrorIs(t, Check(nil), ErrShort)
	require.EqualError(t, Check([]byte("?")), "deep: unknown message type 63 (0x3f, '?')")
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = Check([]byte("?")) }), "an unknown type is no reason to allocate")
}

// FuzzMessages: what is accepted is as long as its type, and what can be written again is the same.
func FuzzMessages(f *testing.F) {
	f.Add(PriceLevel{Buy: true, Complete: true, Time: 99, Symbol: 7, Size: 250, Price: 990500}.Append(nil))
	f.Add(Trade{Time: 1, Symbol: 2, Size: 300, Price: 400, ID: 5}.Append(nil))
	f.Add([]byte("S234567890"))
	f.Add([]byte("H234567890123456789012"))
	f.Fuzz(func(t *testing.T, m []byte) {
		known := Check(m) == nil
		if l, err := ParsePriceLevel(m); err == nil {
			require.True(t, known)
			again, err := ParsePriceLevel(l.Append(nil))
			require.NoError(t, err)
			require.Equal(t, l, again)
		}
		if tr, err := ParseTrade(m); err == nil {
			require.True(t, known)
			require.Equal(t, m[:tradeLen], tr.Append(nil))
		}
		if _, err := ParseSystemEvent(m); err == nil {
			require.True(t, known)
		}
		if s, err := ParseStatus(m); err == nil {
			require.True(t, known)
			require.Equal(t, m[0], s.Type)
		}
	})
}
