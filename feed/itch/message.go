package itch

import (
	"encoding/binary"
	"errors"

	"github.com/socketxtreme/socketxtreme/feed"
)

// Types of the messages that are decoded, the first byte of a message.
const (
	TypeSystemEvent            = 'S'
	TypeStockDirectory         = 'R'
	TypeTradingAction          = 'H'
	TypeAddOrder               = 'A'
	TypeAddOrderMPID           = 'F'
	TypeOrderExecuted          = 'E'
	TypeOrderExecutedWithPrice = 'C'
	TypeOrderCancel            = 'X'
	TypeOrderDelete            = 'D'
	TypeOrderReplace           = 'U'
	TypeTrade                  = 'P'
)

// lengths is the length of each known type; 0 is unknown.
var lengths = [256]uint8{'S': 12, 'R': 39, 'H': 25, 'Y': 20, 'L': 26, 'V': 35, 'W': 12, 'K': 28, 'J': 35, 'h': 21,
	'A': 36, 'F': 40, 'E': 31, 'C': 36, 'X': 23, 'D': 19, 'U': 35, 'P': 44, 'Q': 40, 'B': 19, 'I': 50, 'N': 20, 'O': 48}

const headerLen = 11

// The reasons for which a message is refused.
var (
	ErrShort = errors.New("itch: message shorter than its type")
	ErrType  = errors.New("itch: message of another type")
)

// UnknownTypeError is a message type that this package does not know.
type UnknownTypeError byte

// Error names the type.
func (e UnknownTypeError) Error() string {
	return "itch: unknown message type " + feed.TypeName(int(e))
}

var types = feed.MessageTypes{Lengths: lengths, Short: ErrShort, Other: ErrType,
	Unknown: func(t byte) error { return UnknownTypeError(t) }}

// Check reports whether m is of a known type and as long as that type.
func Check(m []byte) error { return types.Check(m) }

// refuse says what is wrong with a message that should have the given type.
func refuse(m []byte, want int) error { return types.Refuse(m, want) }

// is reports whether m is of type t and as long as it.
func is(m []byte, t byte) bool { return len(m) > 0 && m[0] == t && len(m) >= int(lengths[t]) }

// Header is the begin of every message.
type Header struct {
	Time     int64 // ns since midnight
	Locate   uint16
	Tracking uint16
	Type     byte
}

// ParseHeader reads the begin of a message of any known type.
func ParseHeader(m []byte) (h Header, err error) {
	if err := Check(m); err != nil {
		return h, err
	}
	return header(m), nil
}

func header(m []byte) Header {
	_ = m[headerLen-1]
	return Header{Type: m[0], Locate: binary.BigEndian.Uint16(m[1:]), Tracking: binary.BigEndian.Uint16(m[3:]),
		Time: int64(binary.BigEndian.Uint16(m[5:]))<<32 | int64(binary.BigEndian.Uint32(m[7:]))}
}

// symbol reads a stock: the first character is the lowest byte of a feed.Symbol.
func symbol(b []byte) feed.Symbol { return feed.Symbol(binary.LittleEndian.Uint64(b)) }

// SystemEvent is a step of the trading day: 'O' and 'C' are the first and the last message, 'S' and 'E' begin and end system hours, 'Q'
// and 'M' begin and end market hours.
type SystemEvent struct {
	Header
	Event byte
}

// ParseSystemEvent reads a message of type TypeSystemEvent.
func ParseSystemEvent(m []byte) (e SystemEvent, err error) {
	if !is(m, TypeSystemEvent) {
		return e, refuse(m, TypeSystemEvent)
	}
	return SystemEvent{Header: header(m), Event: m[11]}, nil
}

// StockDirectory names the stock that a locate code stands for today.
type StockDirectory struct {
	Header
	Stock           feed.Symbol
	RoundLot        uint32
	MarketCategory  byte
	FinancialStatus byte
}

// ParseStockDirectory reads a message of type TypeStockDirectory.
func ParseStockDirectory(m []byte) (d StockDirectory, err error) {
	if !is(m, TypeStockDirectory) {
		return d, refuse(m, TypeStockDirectory)
	}
	return StockDirectory{Header: header(m), Stock: symbol(m[11:]), MarketCategory: m[19], FinancialStatus: m[20],
		RoundLot: binary.BigEndian.Uint32(m[21:])}, nil
}

// TradingAction is the trading state of a stock: 'H' halted, 'P' paused, 'Q' quotation only, 'T' trading.
type TradingAction struct {
	Header
	Stock  feed.Symbol
	Reason [4]byte
	State  byte
}

// ParseTradingAction reads a message of type TypeTradingAction.
func ParseTradingAction(m []byte) (a TradingAction, err error) {
	if !is(m, TypeTradingAction) {
		return a, refuse(m, TypeTradingAction)
	}
	return TradingAction{Header: header(m), Stock: symbol(m[11:]), State: m[19], Reason: [4]byte(m[21:])}, nil
}
