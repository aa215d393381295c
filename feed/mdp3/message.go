package mdp3

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Templates. The number in a name is the template, as in CME's names (MDIncrementalRefreshBook46).
const (
	ChannelReset4       = 4
	Heartbeat12         = 12
	SecurityStatus30    = 30
	Book32              = 32
	SessionStatistics35 = 35
	Volume37            = 37
	Snapshot38          = 38
	TradeSummary42      = 42
	OrderBook43         = 43
	Book46              = 46
	OrderBook47         = 47
	TradeSummary48      = 48
	SessionStatistics51 = 51
	Snapshot52          = 52
)

// Null values of optional fields.
const (
	NullPrice = math.MaxInt64
	NullSize  = math.MaxInt32
)

// PriceExponent is the power of ten of the prices of a template: a mantissa of 25 with -2 is 0.25. It is 0 for a template without
// prices.
func PriceExponent(template uint16) int {
	switch template {
	case Book32, TradeSummary42, OrderBook43, SessionStatistics35, Snapshot38:
		return -7
	case Book46, TradeSummary48, OrderBook47, SessionStatistics51, Snapshot52:
		return -9
	}
	return 0
}

// UnknownTemplateError is a template that this package does not know.
type UnknownTemplateError uint16

// Error names the template.
func (e UnknownTemplateError) Error() string {
	return fmt.Sprintf("mdp3: unknown template %d", uint16(e))
}

// Message is one message, its header included. Get it from Next, which checks its size.
type Message []byte

// Template is the type of the message.
func (m Message) Template() uint16 { return binary.LittleEndian.Uint16(m[4:]) }

// Schema is 1 for MDP 3.0.
func (m Message) Schema() uint16 { return binary.LittleEndian.Uint16(m[6:]) }

// Version is the version of the schema that the sender used.
func (m Message) Version() uint16 { return binary.LittleEndian.Uint16(m[8:]) }

// Check reports whether schema and template are known.
func (m Message) Check() error {
	if m.Schema() != 1 {
		return refuse(ErrSchema, int(m.Template()), 6, int(m.Schema()), 1)
	}
	switch t := m.Template(); t {
	case ChannelReset4, Heartbeat12, SecurityStatus30, Book32, SessionStatistics35, Volume37, Snapshot38, TradeSummary42, OrderBook43,
		Book46, OrderBook47, TradeSummary48, SessionStatistics51, Snapshot52:
		return nil
	default:
		return UnknownTemplateError(t)
	}
}

// Root is the block, the fixed part of the message.
func (m Message) Root() ([]byte, error) {
	n := int(binary.LittleEndian.Uint16(m[2:]))
	if messageHeaderLen+n > len(m) {
		return nil, refuse(ErrBlock, int(m.Template()), messageHeaderLen, len(m)-messageHeaderLen, n)
	}
	return m[messageHeaderLen:][:n], nil
}

// Group is a repeating group: Count entries of Size bytes.
type Group struct {
	Size, Count int
	entries     []byte
}

// Entry is the i-th entry. It converts to a pointer of the entry's type: (*BookEntry)(g.Entry(0)).
func (g *Group) Entry(i int) []byte { return g.entries[i*g.Size:][:g.Size] }

// Group is the first group behind the block. Its entries have at least least bytes, such as BookEntryLen, or it is refused.
func (m Message) Group(least int) (g Group, err error) {
	at := messageHeaderLen + int(binary.LittleEndian.Uint16(m[2:]))
	if at+groupHeaderLen > len(m) {
		return g, refuse(ErrGroup, int(m.Template()), at, len(m)-at, groupHeaderLen)
	}
	size, count := int(binary.LittleEndian.Uint16(m[at:])), int(m[at+2])
	if size < least && count > 0 {
		return g, refuse(ErrGroup, int(m.Template()), at, size, least)
	}
	at += groupHeaderLen
	if at+size*count > len(m) {
		return g, refuse(ErrGroup, int(m.Template()), at, len(m)-at, size*count)
	}
	return Group{Size: size, Count: count, entries: m[at:][:size*count]}, nil
}

// The least size of an entry, for Message.Group.
const (
	BookEntryLen       = 27
	TradeEntryLen      = 20
	VolumeEntryLen     = 12
	StatisticsEntryLen = 16
)

// BookEntry is an entry of Book32 and Book46: one change of one level.
type BookEntry [BookEntryLen]byte

// Price is a mantissa; see PriceExponent.
func (e *BookEntry) Price() int64 { return int64(binary.LittleEndian.Uint64(e[0:])) }

// Size is the quantity, or NullSize.
func (e *BookEntry) Size() int32 { return int32(binary.LittleEndian.Uint32(e[8:])) }

// Security is the instrument.
func (e *BookEntry) Security() int32 { return int32(binary.LittleEndian.Uint32(e[12:])) }

// RptSeq counts the updates of the instrument over all templates.
func (e *BookEntry) RptSeq() uint32 { return binary.LittleEndian.Uint32(e[16:]) }

// Orders is the number of orders at the level, or NullSize.
func (e *BookEntry) Orders() int32 { return int32(binary.LittleEndian.Uint32(e[20:])) }

// Level is 1 for the best.
func (e *BookEntry) Level() uint8 { return e[24] }

// Action is what happens to the level.
func (e *BookEntry) Action() uint8 { return e[25] }

// Type is what the entry is about: EntryBid and so on, or a type that is no level, such as an opening price.
func (e *BookEntry) Type() byte { return e[26] }

// Values of BookEntry.Type that concern a book.
const (
	EntryBid          = '0'
	EntryOffer        = '1'
	EntryImpliedBid   = 'E'
	EntryImpliedOffer = 'F'
	EntryBookReset    = 'J' // all levels of the instrument are gone
)

// Values of BookEntry.Action.
const (
	ActionNew        = 0 // insert at the level; worse levels move down
	ActionChange     = 1 // replace the level
	ActionDelete     = 2 // remove the level; worse levels move up
	ActionDeleteThru = 3 // remove the level and all better ones
	ActionDeleteFrom = 4 // remove the level and all worse ones
	ActionOverlay    = 5 // replace the level
)

// TradeEntry is the begin of an entry of TradeSummary42 and TradeSummary48.
type TradeEntry [TradeEntryLen]byte

// Price is a mantissa; see PriceExponent.
func (e *TradeEntry) Price() int64 { return int64(binary.LittleEndian.Uint64(e[0:])) }

// Size is the quantity, or NullSize.
func (e *TradeEntry) Size() int32 { return int32(binary.LittleEndian.Uint32(e[8:])) }

// Security is the instrument.
func (e *TradeEntry) Security() int32 { return int32(binary.LittleEndian.Uint32(e[12:])) }

// RptSeq counts the updates of the instrument over all templates.
func (e *TradeEntry) RptSeq() uint32 { return binary.LittleEndian.Uint32(e[16:]) }

// VolumeEntry is the begin of an entry of Volume37.
type VolumeEntry [VolumeEntryLen]byte

// Size is the volume of the day.
func (e *VolumeEntry) Size() int32 { return int32(binary.LittleEndian.Uint32(e[0:])) }

// Security is the instrument.
func (e *VolumeEntry) Security() int32 { return int32(binary.LittleEndian.Uint32(e[4:])) }

// RptSeq counts the updates of the instrument over all templates.
func (e *VolumeEntry) RptSeq() uint32 { return binary.LittleEndian.Uint32(e[8:]) }

// StatisticsEntry is the begin of an entry of SessionStatistics35 and SessionStatistics51.
type StatisticsEntry [StatisticsEntryLen]byte

// Price is a mantissa; see PriceExponent.
func (e *StatisticsEntry) Price() int64 { return int64(binary.LittleEndian.Uint64(e[0:])) }

// Security is the instrument.
func (e *StatisticsEntry) Security() int32 { return int32(binary.LittleEndian.Uint32(e[8:])) }

// RptSeq counts the updates of the instrument over all templates.
func (e *StatisticsEntry) RptSeq() uint32 { return binary.LittleEndian.Uint32(e[12:]) }
