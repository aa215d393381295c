// Package deep reads IEX DEEP 1.0: aggregated price levels and trades (IEX DEEP Specification 1.08). Messages are
// little-endian, prices are in 1/10,000 of a dollar, symbols are 8 bytes padded with spaces.
package deep

import "encoding/binary"

// Message types, the first byte of a message.
const (
	SystemEvent       = 'S'
	Directory         = 'D'
	TradingStatus     = 'H'
	RetailLiquidity   = 'I'
	OperationalHalt   = 'O'
	ShortSale         = 'P'
	SecurityEvent     = 'E'
	BuyLevel          = '8'
	SellLevel         = '5'
	Trade             = 'T'
	OfficialPrice     = 'X'
	TradeBreak        = 'B'
	Auction           = 'A'
	levelLen          = 30
	tradeLen          = 38
	eventComplete     = 1
	offFlags, offTime = 1, 2
)

// Level is a price level update: the whole size resting at a price now, 0 for none.
type Level [levelLen]byte

// ParseLevel reads a BuyLevel or SellLevel message; false if it is shorter than one.
func ParseLevel(m []byte) (*Level, bool) {
	if len(m) < levelLen {
		return nil, false
	}
	return (*Level)(m), true
}

// Buy tells the side.
func (l *Level) Buy() bool { return l[0] == BuyLevel }

// Complete tells that the book is consistent again after this update: the end of an atomic event.
func (l *Level) Complete() bool { return l[offFlags]&eventComplete != 0 }

// Time is in nanoseconds since 1970.
func (l *Level) Time() int64 { return int64(binary.LittleEndian.Uint64(l[offTime:])) }

// Symbol is the eight bytes of the symbol.
func (l *Level) Symbol() uint64 { return binary.LittleEndian.Uint64(l[10:]) }

// Size is in shares.
func (l *Level) Size() uint32 { return binary.LittleEndian.Uint32(l[18:]) }

// Price is in 1/10,000.
func (l *Level) Price() int64 { return int64(binary.LittleEndian.Uint64(l[22:])) }

// AppendLevel writes a price level update.
func AppendLevel(b []byte, buy, complete bool, at int64, symbol uint64, size uint32, price int64) []byte {
	t, flags := byte(SellLevel), byte(0)
	if buy {
		t = BuyLevel
	}
	if complete {
		flags = eventComplete
	}
	b = binary.LittleEndian.AppendUint64(append(b, t, flags), uint64(at))
	b = binary.LittleEndian.AppendUint64(b, symbol)
	b = binary.LittleEndian.AppendUint32(b, size)
	return binary.LittleEndian.AppendUint64(b, uint64(price))
}

// TradeReport is a trade.
type TradeReport [tradeLen]byte

// ParseTrade reads a Trade message.
func ParseTrade(m []byte) (*TradeReport, bool) {
	if len(m) < tradeLen || m[0] != Trade {
		return nil, false
	}
	return (*TradeReport)(m), true
}

// Size is in shares.
func (t *TradeReport) Size() uint32 { return binary.LittleEndian.Uint32(t[18:]) }

// Price is in 1/10,000.
func (t *TradeReport) Price() int64 { return int64(binary.LittleEndian.Uint64(t[22:])) }

// Symbol is the eight bytes of the symbol.
func (t *TradeReport) Symbol() uint64 { return binary.LittleEndian.Uint64(t[10:]) }

// AppendTrade writes a trade.
func AppendTrade(b []byte, at int64, symbol uint64, size uint32, price int64, id uint64) []byte {
	b = binary.LittleEndian.AppendUint64(append(b, Trade, 0), uint64(at))
	b = binary.LittleEndian.AppendUint64(b, symbol)
	b = binary.LittleEndian.AppendUint32(b, size)
	b = binary.LittleEndian.AppendUint64(b, uint64(price))
	return binary.LittleEndian.AppendUint64(b, id)
}
