// Package mdp3 reads CME MDP 3.0 (Simple Binary Encoding, schema 1, little-endian): a 12-byte packet header, then
// messages whose size and block lengths are in the stream. Everything is stepped over by those lengths, so that newer
// versions, which append fields and groups, are read by the same code.
//
//	packet   | 0 sequence, counts packets | 4 sending time | message | message …
//	message  | 0 size, with itself | 2 block length | 4 template | 6 schema | 8 version | block | groups …
package mdp3

import (
	"encoding/binary"
	"errors"
)

// Templates.
const (
	ChannelReset  = 4
	Heartbeat     = 12
	Status        = 30
	Book32        = 32 // prices 1e-7
	Statistics35  = 35
	Volume37      = 37
	Snapshot38    = 38
	Trades42      = 42
	BookV9        = 46 // prices 1e-9
	TradesV9      = 48
	StatisticsV9  = 51
	packetHeader  = 12
	messageHeader = 10
)

// The ways in which a packet is not one.
var (
	ErrShort = errors.New("mdp3: shorter than its header")
	ErrSize  = errors.New("mdp3: a message exceeds the packet, or is smaller than its header")
)

// Packet is a packet's header.
type Packet [packetHeader]byte

// Seq counts the packets of the channel.
func (p *Packet) Seq() uint32 { return binary.LittleEndian.Uint32(p[0:]) }

// SendingTime is in nanoseconds since 1970.
func (p *Packet) SendingTime() int64 { return int64(binary.LittleEndian.Uint64(p[4:])) }

// Parse checks a packet: that its messages fill it.
func Parse(b []byte) (p *Packet, messages []byte, err error) {
	if len(b) < packetHeader {
		return nil, nil, ErrShort
	}
	rest := b[packetHeader:]
	for len(rest) > 0 {
		if len(rest) < messageHeader {
			return nil, nil, ErrSize
		}
		n := int(binary.LittleEndian.Uint16(rest))
		if n < messageHeader || n > len(rest) {
			return nil, nil, ErrSize
		}
		rest = rest[n:]
	}
	return (*Packet)(b), b[packetHeader:], nil
}

// Message is one message, header included.
type Message []byte

// Next cuts the first message off messages that Parse has checked; nil at the end.
func Next(messages []byte) (m Message, rest []byte) {
	if len(messages) < messageHeader {
		return nil, nil
	}
	n := int(binary.LittleEndian.Uint16(messages))
	if n < messageHeader || n > len(messages) {
		return nil, nil
	}
	return Message(messages[:n]), messages[n:]
}

// Template is the message's type.
func (m Message) Template() uint16 { return binary.LittleEndian.Uint16(m[4:]) }

// Schema is 1.
func (m Message) Schema() uint16 { return binary.LittleEndian.Uint16(m[6:]) }

// Root is the message's fixed part; nil if the block length does not fit.
func (m Message) Root() []byte {
	n := int(binary.LittleEndian.Uint16(m[2:]))
	if messageHeader+n > len(m) {
		return nil
	}
	return m[messageHeader:][:n]
}

// Group is a repeating group: Count entries of Size bytes.
type Group struct {
	Size, Count int
	entries     []byte
}

// Entry is the i-th entry.
func (g *Group) Entry(i int) []byte { return g.entries[i*g.Size:][:g.Size] }

// Group is the first group behind the root, with the usual 3-byte header; false if it does not fit, or entries are
// below least bytes.
func (m Message) Group(least int) (g Group, ok bool) {
	at := messageHeader + int(binary.LittleEndian.Uint16(m[2:]))
	if at+3 > len(m) {
		return g, false
	}
	g.Size, g.Count = int(binary.LittleEndian.Uint16(m[at:])), int(m[at+2])
	if g.Size < least && g.Count > 0 || at+3+g.Size*g.Count > len(m) {
		return Group{}, false
	}
	g.entries = m[at+3:][:g.Size*g.Count]
	return g, true
}

// BookEntry is an entry of templates 32 and 46, and the first part of 42's and 48's.
type BookEntry [27]byte

// BookEntryLen is the least size of a book entry, TradeEntryLen of a trade's.
const (
	BookEntryLen  = 27
	TradeEntryLen = 20
)

// Price is in 1e-7 (template 32) or 1e-9 (46).
func (e *BookEntry) Price() int64 { return int64(binary.LittleEndian.Uint64(e[0:])) }

// Size is the quantity; null is 2147483647.
func (e *BookEntry) Size() int32 { return int32(binary.LittleEndian.Uint32(e[8:])) }

// Security is the instrument.
func (e *BookEntry) Security() int32 { return int32(binary.LittleEndian.Uint32(e[12:])) }

// RptSeq counts the instrument's updates across templates.
func (e *BookEntry) RptSeq() uint32 { return binary.LittleEndian.Uint32(e[16:]) }

// Orders is the number of orders; null is 2147483647.
func (e *BookEntry) Orders() int32 { return int32(binary.LittleEndian.Uint32(e[20:])) }

// Level is 1 for the best.
func (e *BookEntry) Level() uint8 { return e[24] }

// Action is what happens to the level.
func (e *BookEntry) Action() uint8 { return e[25] }

// Type is '0' bid, '1' offer, 'E' and 'F' implied, 'J' book reset, and others.
func (e *BookEntry) Type() byte { return e[26] }

// Actions.
const (
	New        = 0
	Change     = 1
	Delete     = 2
	DeleteThru = 3
	DeleteFrom = 4
	Overlay    = 5
)

// Trade reads quantity, security and RptSeq of an entry of templates 42 and 48 that has TradeEntryLen bytes.
func Trade(e []byte) (qty, security int32, rptSeq uint32) {
	return int32(binary.LittleEndian.Uint32(e[8:])), int32(binary.LittleEndian.Uint32(e[12:])),
		binary.LittleEndian.Uint32(e[16:])
}

// Volume reads security and RptSeq of an entry of template 37 (12 bytes or more).
func Volume(e []byte) (security int32, rptSeq uint32) {
	return int32(binary.LittleEndian.Uint32(e[4:])), binary.LittleEndian.Uint32(e[8:])
}

// Statistics reads security and RptSeq of an entry of templates 35 and 51 (16 bytes or more).
func Statistics(e []byte) (security int32, rptSeq uint32) {
	return int32(binary.LittleEndian.Uint32(e[8:])), binary.LittleEndian.Uint32(e[12:])
}
