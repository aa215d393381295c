package itch

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/feed"
)

// add is an add order, byte by byte.
func add() []byte {
	return append([]byte{TypeAddOrder, 0, 13, 0, 2, 0x0a, 0x37, 0xce, 0xa3, 0xf0, 0xc9, 0, 0, 0, 0, 0, 0, 1, 2, 'B', 0, 0, 0, 100},
		"AAPL    \x00\x30\xe4\x88"...)
}

// made is a message of a type with numbers that tell the fields apart: byte i is i, where no letter belongs.
func made(t byte) []byte {
	m := make([]byte, lengths[t])
	for i := range m {
		m[i] = byte(i)
	}
	m[0] = t
	return m
}

func TestAdd(t *testing.T) {
	m := add()
	require.NoError(t, Check(m))
	require.ErrorIs(t, Check(m[:35]), ErrShort)
	require.EqualError(t, Check(m[:35]), "itch: message shorter than its type: type 65 (0x41, 'A') at byte 0: have 35, want 36")
	require.EqualError(t, Check([]byte("?")), "itch: unknown message type 63 (0x3f, '?')")
	require.ErrorIs(t, Check(nil), ErrShort)
	a, err := ParseAddOrder(m)
	require.NoError(t, err)
	want := AddOrder{Header: Header{Type: 'A', Locate: 13, Tracking: 2, Time: 0x0a37cea3f0c9}, Ref: 258, Buy: true, Shares: 100,
		Stock: feed.SymbolOf("AAPL"), Price: 3204232}
	require.Equal(t, want, a)
	m[0], want.Type, want.MPID = TypeAddOrderMPID, TypeAddOrderMPID, [4]byte{'N', 'S', 'D', 'Q'}
	_, err = ParseAddOrder(m)
	require.ErrorIs(t, err, ErrShort)
	a, err = ParseAddOrder(append(m, "NSDQ"...))
	require.NoError(t, err)
	require.Equal(t, want, a)
	_, err = ParseAddOrder(made(TypeTrade))
	require.ErrorIs(t, err, ErrType)
}

func TestFieldsOfEveryMessage(t *testing.T) {
	u32 := func(at int) uint32 { return uint32(at)<<24 | uint32(at+1)<<16 | uint32(at+2)<<8 | uint32(at+3) }
	u64 := func(at int) uint64 { return uint64(u32(at))<<32 | uint64(u32(at+4)) }
	h := func(c byte) Header { return Header{Type: c, Locate: 0x0102, Tracking: 0x0304, Time: 0x05060708090a} }
	stock := func(at int) feed.Symbol { return feed.Symbol(binary.LittleEndian.Uint64(made('I')[at:])) }
	check := func(want, got any, err error) {
		t.Helper()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	e, err := ParseOrderExecuted(made('E'))
	check(OrderExecuted{Header: h('E'), Ref: u64(11), Shares: u32(19), Match: u64(23), Printable: true}, e, err)
	e, err = ParseOrderExecuted(made('C'))
	check(OrderExecuted{Header: h('C'), Ref: u64(11), Shares: u32(19), Match: u64(23), Price: u32(32)}, e, err)
	x, err := ParseOrderCancel(made('X'))
	check(OrderCancel{h('X'), u64(11), u32(19)}, x, err)
	d, err := ParseOrderDelete(made('D'))
	check(OrderDelete{h('D'), u64(11)}, d, err)
	u, err := ParseOrderReplace(made('U'))
	check(OrderReplace{h('U'), u64(11), u64(19), u32(27), u32(31)}, u, err)
	p, err := ParseTrade(made('P'))
	check(Trade{Header: h('P'), Ref: u64(11), Shares: u32(20), Stock: stock(24), Price: u32(32), Match: u64(36)}, p, err)
	r, err := ParseStockDirectory(made('R'))
	check(StockDirectory{h('R'), stock(11), u32(21), 19, 20}, r, err)
	a, err := ParseTradingAction(made('H'))
	check(TradingAction{h('H'), stock(11), [4]byte{21, 22, 23, 24}, 19}, a, err)
	s, err := ParseSystemEvent(made('S'))
	check(SystemEvent{h('S'), 11}, s, err)
}

// parsers is each function with a type it reads.
var parsers = map[byte]func(m []byte) error{
	'A': func(m []byte) error { _, err := ParseAddOrder(m); return err },
	'E': func(m []byte) error { _, err := ParseOrderExecuted(m); return err },
	'X': func(m []byte) error { _, err := ParseOrderCancel(m); return err },
	'D': func(m []byte) error { _, err := ParseOrderDelete(m); return err },
	'U': func(m []byte) error { _, err := ParseOrderReplace(m); return err },
	'P': func(m []byte) error { _, err := ParseTrade(m); return err },
	'R': func(m []byte) error { _, err := ParseStockDirectory(m); return err },
	'H': func(m []byte) error { _, err := ParseTradingAction(m); return err },
	'S': func(m []byte) error { _, err := ParseSystemEvent(m); return err },
}

func TestWhatIsRefused(t *testing.T) {
	for c, parse := range parsers {
		require.NoError(t, parse(made(c)))
		require.NoError(t, parse(append(made(c), 0)), "a longer message is accepted")
		for n := range made(c) {
			require.ErrorIs(t, parse(made(c)[:n]), ErrShort, "%c", c)
		}
		require.ErrorIs(t, parse(made('Y')), ErrType)
		var unknown UnknownTypeError
		require.True(t, errors.As(parse([]byte("?")), &unknown))
		require.Equal(t, UnknownTypeError('?'), unknown)
	}
	for c, n := range lengths {
		if n > 0 {
			got, err := ParseHeader(made(byte(c)))
			require.NoError(t, err)
			require.Equal(t, byte(c), got.Type)
		}
	}
	_, err := ParseHeader([]byte("A"))
	require.ErrorIs(t, err, ErrShort)
}

// FuzzParse: nothing panics, and what a function accepts passes Check.
func FuzzParse(f *testing.F) {
	for c, n := range lengths {
		if n > 0 {
			f.Add(made(byte(c)))
		}
	}
	f.Fuzz(func(t *testing.T, m []byte) {
		for _, parse := range parsers {
			if parse(m) == nil {
				require.NoError(t, Check(m))
			}
		}
	})
}

var sink uint64 // keeps the compiler from leaving out what is measured

func decode(m []byte) {
	a, err := ParseAddOrder(m)
	if err != nil {
		return
	}
	sink += a.Ref + uint64(a.Stock) + uint64(a.Price)
}

// BenchmarkParseAddOrder reads every field of one message.
func BenchmarkParseAddOrder(b *testing.B) {
	m := add()
	b.ReportAllocs()
	for b.Loop() {
		decode(m)
	}
}

func TestParsingDoesNotAllocate(t *testing.T) {
	m, other := add(), []byte("?")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		decode(m)
		if Check(other) == nil {
			t.Error("unknown")
		}
	}))
}
