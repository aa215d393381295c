// Package itch50 reads Nasdaq TotalView-ITCH 5.0: every order and what becomes of it. Messages are big-endian; prices
// are in 1/10,000 of a dollar. All begin with type, stock locate, tracking number and nanoseconds since midnight.
package itch50

import "encoding/binary"

// Message types that touch the book, and those that report trades.
const (
	Add             = 'A'
	AddMPID         = 'F'
	Executed        = 'E'
	ExecutedAtPrice = 'C'
	Cancel          = 'X'
	Delete          = 'D'
	Replace         = 'U'
	Trade           = 'P'
)

// lengths is the length of each known type; 0 is unknown.
var lengths = [256]uint8{'S': 12, 'R': 39, 'H': 25, 'Y': 20, 'L': 26, 'V': 35, 'W': 12, 'K': 28, 'J': 35, 'h': 21,
	'A': 36, 'F': 40, 'E': 31, 'C': 36, 'X': 23, 'D': 19, 'U': 35, 'P': 44, 'Q': 40, 'B': 19, 'I': 50, 'N': 20, 'O': 48}

// Known tells whether m is as long as its type says; messages of unknown types are to be skipped.
func Known(m []byte) bool { return len(m) > 0 && lengths[m[0]] > 0 && len(m) >= int(lengths[m[0]]) }

// Locate is the stock's number in this session.
func Locate(m []byte) uint16 { return binary.BigEndian.Uint16(m[1:]) }

// Time is in nanoseconds since midnight.
func Time(m []byte) int64 {
	return int64(binary.BigEndian.Uint16(m[5:]))<<32 | int64(binary.BigEndian.Uint32(m[7:]))
}

// Ref is the order reference of a message that has one.
func Ref(m []byte) uint64 { return binary.BigEndian.Uint64(m[11:]) }

// AddOrder is an Add or AddMPID message.
type AddOrder [36]byte

// ParseAdd reads an Add or AddMPID message for which Known holds.
func ParseAdd(m []byte) *AddOrder { return (*AddOrder)(m) }

// Ref is the order reference.
func (a *AddOrder) Ref() uint64 { return binary.BigEndian.Uint64(a[11:]) }

// Buy tells the side.
func (a *AddOrder) Buy() bool { return a[19] == 'B' }

// Shares is the size.
func (a *AddOrder) Shares() uint32 { return binary.BigEndian.Uint32(a[20:]) }

// Stock is the eight bytes of the symbol, first character lowest, as IEX has it.
func (a *AddOrder) Stock() uint64 { return binary.LittleEndian.Uint64(a[24:]) }

// Price is in 1/10,000.
func (a *AddOrder) Price() uint32 { return binary.BigEndian.Uint32(a[32:]) }

// Shares19 is the number of shares of an Executed, ExecutedAtPrice or Cancel message.
func Shares19(m []byte) uint32 { return binary.BigEndian.Uint32(m[19:]) }

// Replacement is a Replace message's new reference, shares and price.
func Replacement(m []byte) (ref uint64, shares, price uint32) {
	return binary.BigEndian.Uint64(m[19:]), binary.BigEndian.Uint32(m[27:]), binary.BigEndian.Uint32(m[31:])
}

// TradeShares is the number of shares of a Trade message.
func TradeShares(m []byte) uint32 { return binary.BigEndian.Uint32(m[20:]) }
