package pitch

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/feed"
)

// made is a message of a type with numbers that tell the fields apart: byte i is i.
func made(t byte) []byte {
	m := make([]byte, lengths[t])
	for i := range m {
		m[i] = byte(i)
	}
	m[0], m[1] = lengths[t], t
	return m
}

func TestFieldsOfEveryMessage(t *testing.T) {
	w16 := func(at int) uint32 { return uint32(at) | uint32(at+1)<<8 }
	w32 := func(at int) uint32 { return w16(at) | w16(at+2)<<16 }
	w64 := func(at int) uint64 { return uint64(w32(at)) | uint64(w32(at+4))<<32 }
	name := func(at int) feed.Symbol { return feed.Symbol(w64(at))&(1<<48-1) | 0x2020<<48 }
	check := func(want, got any, err error) {
		t.Helper()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	a, err := ParseAddOrder(made(TypeAddOrderLong))
	check(AddOrder{Order: w64(6), Symbol: name(19), Price: int64(w64(25)), Nanos: w32(2), Shares: w32(15)}, a, err)
	a, err = ParseAddOrder(made(TypeAddOrderShort))
	check(AddOrder{Order: w64(6), Symbol: name(17), Price: 100 * int64(w16(23)), Nanos: w32(2), Shares: w16(15)}, a, err)
	e, err := ParseOrderExecuted(made(TypeOrderExecuted))
	check(OrderExecuted{Order: w64(6), Execution: w64(18), Nanos: w32(2), Shares: w32(14)}, e, err)
	e, err = ParseOrderExecuted(made(TypeOrderExecutedAtPrice))
	check(OrderExecuted{Order: w64(6), Execution: w64(22), Price: int64(w64(30)), Nanos: w32(2), Shares: w32(14), Remaining: w32(18),
		AtPrice: true}, e, err)
	r, err := ParseReduceSize(made(TypeReduceSizeLong))
	check(ReduceSize{w64(6), w32(2), w32(14)}, r, err)
	r, err = ParseReduceSize(made(TypeReduceSizeShort))
	check(ReduceSize{w64(6), w32(2), w16(14)}, r, err)
	o, err := ParseModifyOrder(made(TypeModifyOrderLong))
	check(ModifyOrder{w64(6), int64(w64(18)), w32(2), w32(14)}, o, err)
	o, err = ParseModifyOrder(made(TypeModifyOrderShort))
	check(ModifyOrder{w64(6), 100 * int64(w16(16)), w32(2), w16(14)}, o, err)
	d, err := ParseDeleteOrder(made(TypeDeleteOrder))
	check(DeleteOrder{w64(6), w32(2)}, d, err)
	p, err := ParseTrade(made(TypeTradeLong))
	check(Trade{Order: w64(6), Execution: w64(33), Symbol: name(19), Price: int64(w64(25)), Nanos: w32(2), Shares: w32(15)}, p, err)
	p, err = ParseTrade(made(TypeTradeShort))
	check(Trade{Order: w64(6), Execution: w64(25), Symbol: name(17), Price: 100 * int64(w16(23)), Nanos: w32(2), Shares: w16(15)}, p, err)
}

// parsers is each function with a type it reads.
var parsers = map[byte]func(m []byte) error{
	TypeTime:         func(m []byte) error { _, err := ParseTime(m); return err },
	TypeAddOrderLong: func(m []byte) error { _, err := ParseAddOrder(m); return err },
	TypeOrderExecuted: func(m []byte) error {
		_, err := ParseOrderExecuted(m)
		return err
	},
	TypeReduceSizeShort:  func(m []byte) error { _, err := ParseReduceSize(m); return err },
	TypeModifyOrderShort: func(m []byte) error { _, err := ParseModifyOrder(m); return err },
	TypeDeleteOrder:      func(m []byte) error { _, err := ParseDeleteOrder(m); return err },
	TypeTradeLong:        func(m []byte) error { _, err := ParseTrade(m); return err },
}

func TestWhatIsRefused(t *testing.T) {
	for c, parse := range parsers {
		require.NoError(t, parse(made(c)))
		require.NoError(t, parse(append(made(c), 0)), "a longer message is accepted")
		for n := range made(c) {
			require.ErrorIs(t, parse(made(c)[:n]), ErrShort, "%x", c)
		}
		require.ErrorIs(t, parse(made(TypeUnitClear)), ErrType)
		var unknown UnknownTypeError
		require.True(t, errors.As(parse([]byte{2, 0xff}), &unknown))
		require.Equal(t, UnknownTypeError(0xff), unknown)
	}
	for c, n := range lengths {
		if n > 0 {
			require.NoError(t, Check(made(byte(c))))
			require.ErrorIs(t, Check(made(byte(c))[:n-1]), ErrShort)
		}
	}
	require.EqualError(t, Check([]byte{2, 0xff}), "pitch: unknown message type 255 (0xff)")
}
