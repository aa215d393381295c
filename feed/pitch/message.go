package pitch

import (
	"encoding/binary"

	"github.com/socketxtreme/socketxtreme/feed"
)

// Message types, the second byte of a message.
const (
	TypeTime                 = 0x20
	TypeAddOrderLong         = 0x21
	TypeAddOrderShort        = 0x22
	TypeOrderExecuted        = 0x23
	TypeOrderExecutedAtPrice = 0x24
	TypeReduceSizeLong       = 0x25
	TypeReduceSizeShort      = 0x26
	TypeModifyOrderLong      = 0x27
	TypeModifyOrderShort     = 0x28
	TypeDeleteOrder          = 0x29
	TypeTradeLong            = 0x2a
	TypeTradeShort           = 0x2b
	TypeTradeBreak           = 0x2c
	TypeEndOfSession         = 0x2d
	TypeTradingStatus        = 0x31
	TypeUnitClear            = 0x97
)

// lengths is the least length of each known type; 0 is unknown.
var lengths = [256]uint8{TypeTime: 6, TypeAddOrderLong: 34, TypeAddOrderShort: 26, TypeOrderExecuted: 26, TypeOrderExecutedAtPrice: 38,
	TypeReduceSizeLong: 18, TypeReduceSizeShort: 16, TypeModifyOrderLong: 27, TypeModifyOrderShort: 19, TypeDeleteOrder: 14,
	TypeTradeLong: 41, TypeTradeShort: 33, TypeTradeBreak: 14, TypeEndOfSession: 6, TypeTradingStatus: 18, TypeUnitClear: 6}

// cent is what a price of a short message is multiplied by.
const cent = 100

// UnknownTypeError is a message type that this package does not know.
type UnknownTypeError byte

// Error names the type.
func (e UnknownTypeError) Error() string {
	return "pitch: unknown message type " + feed.TypeName(int(e))
}

var types = feed.MessageTypes{Lengths: lengths, Offset: 1, Short: ErrShort, Other: ErrType,
	Unknown: func(t byte) error { return UnknownTypeError(t) }}

// Check reports whether m is of a known type and as long as that type.
func Check(m []byte) error { return types.Check(m) }

// refuse says what is wrong with a message that should have the given type.
func refuse(m []byte, want int) error { return types.Refuse(m, want) }

// is reports whether m is of type t and as long as it.
func is(m []byte, t byte) bool { return len(m) >= 2 && m[1] == t && len(m) >= int(lengths[t]) }

func u16(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }
func u32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func u64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// symbol reads six characters and pads them to eight.
func symbol(b []byte) feed.Symbol {
	return feed.Symbol(u32(b)) | feed.Symbol(u16(b[4:]))<<32 | 0x2020<<48
}

// ParseTime reads a message of type TypeTime: seconds since midnight, which the times of the next messages are added to.
func ParseTime(m []byte) (seconds uint32, err error) {
	if !is(m, TypeTime) {
		return 0, refuse(m, TypeTime)
	}
	return u32(m[2:]), nil
}

// AddOrder is a new displayed order.
type AddOrder struct {
	Order  uint64
	Symbol feed.Symbol
	Price  int64  // 1/10,000 of a dollar
	Nanos  uint32 // behind the last time message
	Shares uint32
	Buy    bool
}

// ParseAddOrder reads a message of type TypeAddOrderLong or TypeAddOrderShort.
func ParseAddOrder(m []byte) (a AddOrder, err error) {
	switch {
	case is(m, TypeAddOrderLong):
		a.Shares, a.Symbol, a.Price = u32(m[15:]), symbol(m[19:]), int64(u64(m[25:]))
	case is(m, TypeAddOrderShort):
		a.Shares, a.Symbol, a.Price = uint32(u16(m[15:])), symbol(m[17:]), cent*int64(u16(m[23:]))
	default:
		return a, refuse(m, TypeAddOrderLong)
	}
	a.Nanos, a.Order, a.Buy = u32(m[2:]), u64(m[6:]), m[14] == 'B'
	return a, nil
}

// OrderExecuted is a trade against a displayed order: Shares come off it.
type OrderExecuted struct {
	Order     uint64
	Execution uint64
	Price     int64  // with AtPrice, 1/10,000 of a dollar; otherwise 0: the trade was at the order's price
	Nanos     uint32 // behind the last time message
	Shares    uint32
	Remaining uint32 // with AtPrice, the shares that the order has left
	AtPrice   bool   // TypeOrderExecutedAtPrice
}

// ParseOrderExecuted reads a message of type TypeOrderExecuted or TypeOrderExecutedAtPrice.
func ParseOrderExecuted(m []byte) (e OrderExecuted, err error) {
	switch {
	case is(m, TypeOrderExecuted):
		e.Execution = u64(m[18:])
	case is(m, TypeOrderExecutedAtPrice):
		e.AtPrice, e.Remaining, e.Execution, e.Price = true, u32(m[18:]), u64(m[22:]), int64(u64(m[30:]))
	default:
		return e, refuse(m, TypeOrderExecuted)
	}
	e.Nanos, e.Order, e.Shares = u32(m[2:]), u64(m[6:]), u32(m[14:])
	return e, nil
}

// ReduceSize takes Shares off an order.
type ReduceSize struct {
	Order  uint64
	Nanos  uint32 // behind the last time message
	Shares uint32
}

// ParseReduceSize reads a message of type TypeReduceSizeLong or TypeReduceSizeShort.
func ParseReduceSize(m []byte) (r ReduceSize, err error) {
	switch {
	case is(m, TypeReduceSizeLong):
		r.Shares = u32(m[14:])
	case is(m, TypeReduceSizeShort):
		r.Shares = uint32(u16(m[14:]))
	default:
		return r, refuse(m, TypeReduceSizeLong)
	}
	r.Nanos, r.Order = u32(m[2:]), u64(m[6:])
	return r, nil
}

// ModifyOrder gives an order another size and price.
type ModifyOrder struct {
	Order  uint64
	Price  int64  // 1/10,000 of a dollar
	Nanos  uint32 // behind the last time message
	Shares uint32
}

// ParseModifyOrder reads a message of type TypeModifyOrderLong or TypeModifyOrderShort.
func ParseModifyOrder(m []byte) (o ModifyOrder, err error) {
	switch {
	case is(m, TypeModifyOrderLong):
		o.Shares, o.Price = u32(m[14:]), int64(u64(m[18:]))
	case is(m, TypeModifyOrderShort):
		o.Shares, o.Price = uint32(u16(m[14:])), cent*int64(u16(m[16:]))
	default:
		return o, refuse(m, TypeModifyOrderLong)
	}
	o.Nanos, o.Order = u32(m[2:]), u64(m[6:])
	return o, nil
}

// DeleteOrder removes an order.
type DeleteOrder struct {
	Order uint64
	Nanos uint32 // behind the last time message
}

// ParseDeleteOrder reads a message of type TypeDeleteOrder.
func ParseDeleteOrder(m []byte) (d DeleteOrder, err error) {
	if !is(m, TypeDeleteOrder) {
		return d, refuse(m, TypeDeleteOrder)
	}
	return DeleteOrder{Order: u64(m[6:]), Nanos: u32(m[2:])}, nil
}

// Trade is a trade against an order that was not displayed. It does not touch the book.
type Trade struct {
	Order     uint64
	Execution uint64
	Symbol    feed.Symbol
	Price     int64  // 1/10,000 of a dollar
	Nanos     uint32 // behind the last time message
	Shares    uint32
	Buy       bool
}

// ParseTrade reads a message of type TypeTradeLong or TypeTradeShort.
func ParseTrade(m []byte) (t Trade, err error) {
	switch {
	case is(m, TypeTradeLong):
		t.Shares, t.Symbol, t.Price, t.Execution = u32(m[15:]), symbol(m[19:]), int64(u64(m[25:])), u64(m[33:])
	case is(m, TypeTradeShort):
		t.Shares, t.Symbol, t.Price, t.Execution = uint32(u16(m[15:])), symbol(m[17:]), cent*int64(u16(m[23:])), u64(m[25:])
	default:
		return t, refuse(m, TypeTradeLong)
	}
	t.Nanos, t.Order, t.Buy = u32(m[2:]), u64(m[6:]), m[14] == 'B'
	return t, nil
}
