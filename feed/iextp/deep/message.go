package deep

import (
	"encoding/binary"
	"errors"

	"github.com/socketxtreme/socketxtreme/feed"
)

// Message types, the first byte of a message.
const (
	TypeSystemEvent     = 'S'
	TypeDirectory       = 'D'
	TypeTradingStatus   = 'H'
	TypeRetailLiquidity = 'I'
	TypeOperationalHalt = 'O'
	TypeShortSale       = 'P'
	TypeSecurityEvent   = 'E'
	TypeBuyLevel        = '8'
	TypeSellLevel       = '5'
	TypeTrade           = 'T'
	TypeOfficialPrice   = 'X'
	TypeTradeBreak      = 'B'
	TypeAuction         = 'A'
)

// lengths is the length of each known type; 0 is unknown.
var lengths = [256]uint8{TypeSystemEvent: 10, TypeDirectory: 31, TypeTradingStatus: 22, TypeRetailLiquidity: 18,
	TypeOperationalHalt: 18, TypeShortSale: 19, TypeSecurityEvent: 18, TypeBuyLevel: levelLen, TypeSellLevel: levelLen,
	TypeTrade: tradeLen, TypeTradeBreak: tradeLen, TypeOfficialPrice: 26, TypeAuction: 80}

const (
	levelLen      = 30
	tradeLen      = 38
	eventComplete = 1 // the flag of a price level that ends an event
)

// The reasons for which a message is refused.
var (
	ErrShort = errors.New("deep: message shorter than its type")
	ErrType  = errors.New("deep: message of another type")
)

// UnknownTypeError is a message type that this package does not know.
type UnknownTypeError byte

// Error names the type.
func (e UnknownTypeError) Error() string {
	return "deep: unknown message type " + feed.TypeName(int(e))
}

var types = feed.MessageTypes{Lengths: lengths, Short: ErrShort, Other: ErrType,
	Unknown: func(t byte) error { return UnknownTypeError(t) }}

// Check reports whether m is of a known type and as long as that type.
func Check(m []byte) error { return types.Check(m) }

// refuse says what is wrong with a message that should have the given type.
func refuse(m []byte, want int) error { return types.Refuse(m, want) }

// PriceLevel is the whole size at one price of one side. Size 0 removes the level.
type PriceLevel struct {
	Time     int64 // ns since 1970
	Symbol   feed.Symbol
	Price    int64 // 1/10,000 of a dollar
	Size     uint32
	Buy      bool
	Complete bool // the event ends here: the book is consistent again
}

// ParsePriceLevel reads a message of type TypeBuyLevel or TypeSellLevel.
func ParsePriceLevel(m []byte) (l PriceLevel, err error) {
	if len(m) < levelLen || m[0] != TypeBuyLevel && m[0] != TypeSellLevel {
		return l, refuse(m, TypeBuyLevel)
	}
	return PriceLevel{
		Buy:      m[0] == TypeBuyLevel,
		Complete: m[1]&eventComplete != 0,
		Time:     int64(binary.LittleEndian.Uint64(m[2:])),
		Symbol:   feed.Symbol(binary.LittleEndian.Uint64(m[10:])),
		Size:     binary.LittleEndian.Uint32(m[18:]),
		Price:    int64(binary.LittleEndian.Uint64(m[22:])),
	}, nil
}

// Append writes the message behind b.
func (l PriceLevel) Append(b []byte) []byte {
	t, flags := byte(TypeSellLevel), byte(0)
	if l.Buy {
		t = TypeBuyLevel
	}
	if l.Complete {
		flags = eventComplete
	}
	b = binary.LittleEndian.AppendUint64(append(b, t, flags), uint64(l.Time))
	b = binary.LittleEndian.AppendUint64(b, uint64(l.Symbol))
	b = binary.LittleEndian.AppendUint32(b, l.Size)
	return binary.LittleEndian.AppendUint64(b, uint64(l.Price))
}

// Trade is a trade, or with Break the correction that takes one back.
type Trade struct {
	Time   int64 // ns since 1970
	Symbol feed.Symbol
	Price  int64 // 1/10,000 of a dollar
	ID     uint64
	Size   uint32
	Flags  byte // sale conditions
	Break  bool
}

// ParseTrade reads a message of type TypeTrade or TypeTradeBreak.
func ParseTrade(m []byte) (t Trade, err error) {
	if len(m) < tradeLen || m[0] != TypeTrade && m[0] != TypeTradeBreak {
		return t, refuse(m, TypeTrade)
	}
	return Trade{
		Break:  m[0] == TypeTradeBreak,
		Flags:  m[1],
		Time:   int64(binary.LittleEndian.Uint64(m[2:])),
		Symbol: feed.Symbol(binary.LittleEndian.Uint64(m[10:])),
		Size:   binary.LittleEndian.Uint32(m[18:]),
		Price:  int64(binary.LittleEndian.Uint64(m[22:])),
		ID:     binary.LittleEndian.Uint64(m[30:]),
	}, nil
}

// Append writes the message behind b.
func (t Trade) Append(b []byte) []byte {
	kind := byte(TypeTrade)
	if t.Break {
		kind = TypeTradeBreak
	}
	b = binary.LittleEndian.AppendUint64(append(b, kind, t.Flags), uint64(t.Time))
	b = binary.LittleEndian.AppendUint64(b, uint64(t.Symbol))
	b = binary.LittleEndian.AppendUint32(b, t.Size)
	b = binary.LittleEndian.AppendUint64(b, uint64(t.Price))
	return binary.LittleEndian.AppendUint64(b, t.ID)
}

// SystemEvent is a step of the trading day: 'O' and 'C' are the first and the last message, 'S' and 'E' begin and end system hours,
// 'R' and 'M' begin and end regular trading.
type SystemEvent struct {
	Time  int64 // ns since 1970
	Event byte
}

// ParseSystemEvent reads a message of type TypeSystemEvent.
func ParseSystemEvent(m []byte) (e SystemEvent, err error) {
	if len(m) < int(lengths[TypeSystemEvent]) || m[0] != TypeSystemEvent {
		return e, refuse(m, TypeSystemEvent)
	}
	return SystemEvent{Event: m[1], Time: int64(binary.LittleEndian.Uint64(m[2:]))}, nil
}

// Status is a state of one symbol. What Code says depends on Type; the specification lists the codes.
type Status struct {
	Time   int64 // ns since 1970
	Symbol feed.Symbol
	Type   byte // TypeTradingStatus, TypeRetailLiquidity, TypeOperationalHalt, TypeShortSale or TypeSecurityEvent
	Code   byte
}

// ParseStatus reads a message of one of the types of Status.
func ParseStatus(m []byte) (s Status, err error) {
	if err := Check(m); err != nil {
		return s, err
	}
	switch m[0] {
	case TypeTradingStatus, TypeRetailLiquidity, TypeOperationalHalt, TypeShortSale, TypeSecurityEvent:
	default:
		return s, refuse(m, TypeTradingStatus)
	}
	return Status{Type: m[0], Code: m[1], Time: int64(binary.LittleEndian.Uint64(m[2:])),
		Symbol: feed.Symbol(binary.LittleEndian.Uint64(m[10:]))}, nil
}
