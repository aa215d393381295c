// Package pitch reads Cboe's multicast PITCH (US equities, version 2): a sequenced unit header, then messages with
// their lengths, little-endian. Sequence numbers belong to a unit; symbols are spread over units. Messages are stepped
// over by their length byte, never by type: lengths differ between markets and versions.
//
//	| 0 length of the packet | 2 count | 3 unit | 4 sequence | length, type, … | …
package pitch

import (
	"encoding/binary"
	"errors"
)

// HeaderLen is the length of the sequenced unit header, bytes.
const HeaderLen = 8

// Message types.
const (
	Time            = 0x20
	AddLong         = 0x21
	AddShort        = 0x22
	Executed        = 0x23
	ExecutedAtPrice = 0x24
	ReduceLong      = 0x25
	ReduceShort     = 0x26
	ModifyLong      = 0x27
	ModifyShort     = 0x28
	Delete          = 0x29
	TradeLong       = 0x2a
	TradeShort      = 0x2b
	TradeBreak      = 0x2c
	EndOfSession    = 0x2d
	UnitClear       = 0x97
)

// lengths is the least length of the types that are decoded.
var lengths = [256]uint8{AddLong: 34, AddShort: 26, Executed: 26, ExecutedAtPrice: 38, ReduceLong: 18, ReduceShort: 16,
	ModifyLong: 27, ModifyShort: 19, Delete: 14, TradeLong: 41, TradeShort: 33}

// The ways in which a packet is not one.
var (
	ErrShort  = errors.New("pitch: shorter than its header")
	ErrLength = errors.New("pitch: the length or the messages exceed the packet, or do not fill it")
)

// Header is the sequenced unit header.
type Header [HeaderLen]byte

// Len is the length of the packet, header included.
func (h *Header) Len() int { return int(binary.LittleEndian.Uint16(h[0:])) }

// Count is the number of messages; 0 is a heartbeat.
func (h *Header) Count() uint32 { return uint32(h[2]) }

// Unit is whose sequence it is.
func (h *Header) Unit() uint8 { return h[3] }

// Seq is the sequence number of the first message, or of the next one in a heartbeat; 0 is unsequenced.
func (h *Header) Seq() uint32 { return binary.LittleEndian.Uint32(h[4:]) }

// Parse checks a packet: that its messages fill it.
func Parse(b []byte) (h *Header, messages []byte, err error) {
	if len(b) < HeaderLen {
		return nil, nil, ErrShort
	}
	h = (*Header)(b)
	if n := h.Len(); n < HeaderLen || n > len(b) {
		return nil, nil, ErrLength
	}
	messages = b[HeaderLen:h.Len()]
	rest := messages
	for range h.Count() {
		if len(rest) < 2 || rest[0] < 2 || int(rest[0]) > len(rest) {
			return nil, nil, ErrLength
		}
		rest = rest[rest[0]:]
	}
	if len(rest) > 0 {
		return nil, nil, ErrLength
	}
	return h, messages, nil
}

// Next cuts the first message off messages that Parse has checked; nil at the end.
func Next(messages []byte) (m, rest []byte) {
	if len(messages) < 2 || messages[0] < 2 || int(messages[0]) > len(messages) {
		return nil, nil
	}
	return messages[:messages[0]], messages[messages[0]:]
}

// Known tells whether m is a decoded type and long enough for it.
func Known(m []byte) bool { return len(m) >= 2 && lengths[m[1]] > 0 && len(m) >= int(lengths[m[1]]) }

// Order is the order identifier of every decoded type.
func Order(m []byte) uint64 { return binary.LittleEndian.Uint64(m[6:]) }

// Add reads an AddLong or AddShort message. Symbol is its six characters padded to eight, price in 1/10,000.
func Add(m []byte) (buy bool, shares uint32, symbol uint64, price int64) {
	at := 15
	if m[1] == AddLong {
		shares, at = binary.LittleEndian.Uint32(m[15:]), 19
	} else {
		shares, at = uint32(binary.LittleEndian.Uint16(m[15:])), 17
	}
	symbol = uint64(binary.LittleEndian.Uint32(m[at:])) | uint64(binary.LittleEndian.Uint16(m[at+4:]))<<32 | 0x2020<<48
	if m[1] == AddLong {
		price = int64(binary.LittleEndian.Uint64(m[at+6:]))
	} else {
		price = 100 * int64(binary.LittleEndian.Uint16(m[at+6:]))
	}
	return m[14] == 'B', shares, symbol, price
}

// Shares reads the quantity of an Executed, ExecutedAtPrice, ReduceLong or ReduceShort message.
func Shares(m []byte) uint32 {
	if m[1] == ReduceShort {
		return uint32(binary.LittleEndian.Uint16(m[14:]))
	}
	return binary.LittleEndian.Uint32(m[14:])
}

// Modify reads the new shares and price of a ModifyLong or ModifyShort message.
func Modify(m []byte) (shares uint32, price int64) {
	if m[1] == ModifyLong {
		return binary.LittleEndian.Uint32(m[14:]), int64(binary.LittleEndian.Uint64(m[18:]))
	}
	return uint32(binary.LittleEndian.Uint16(m[14:])), 100 * int64(binary.LittleEndian.Uint16(m[16:]))
}

// TradeShares reads the quantity of a TradeLong or TradeShort message.
func TradeShares(m []byte) uint32 {
	if m[1] == TradeShort {
		return uint32(binary.LittleEndian.Uint16(m[15:]))
	}
	return binary.LittleEndian.Uint32(m[15:])
}
