// Package iextp reads and writes IEX-TP 1, the transport of IEX's market data: a 40-byte header, then messages with
// their lengths, all little-endian (IEX Transport Specification 1.25).
//
//	0 version | 2 protocol | 4 channel | 8 session | 12 payload length | 14 count | 16 offset | 24 sequence | 32 sent
package iextp

import (
	"encoding/binary"
	"errors"
)

// HeaderLen is the length of a segment's header, bytes.
const HeaderLen = 40

// Message protocols.
const (
	TOPS16 = 0x8003
	DEEP10 = 0x8004
)

// The ways in which a segment is not one.
var (
	ErrShort   = errors.New("iextp: shorter than its header")
	ErrVersion = errors.New("iextp: not version 1")
	ErrLength  = errors.New("iextp: payload length or messages exceed the packet")
	ErrCount   = errors.New("iextp: message count and messages differ")
)

// Header is a segment's header; holding one proves that 40 bytes are there.
type Header [HeaderLen]byte

// Protocol is the message protocol, such as DEEP10.
func (h *Header) Protocol() uint16 { return binary.LittleEndian.Uint16(h[2:]) }

// Channel is the channel of the message protocol.
func (h *Header) Channel() uint32 { return binary.LittleEndian.Uint32(h[4:]) }

// Session is new on each trading day.
func (h *Header) Session() uint32 { return binary.LittleEndian.Uint32(h[8:]) }

// PayloadLen is the bytes behind the header.
func (h *Header) PayloadLen() int { return int(binary.LittleEndian.Uint16(h[12:])) }

// Count is the number of messages; 0 is a heartbeat.
func (h *Header) Count() uint32 { return uint32(binary.LittleEndian.Uint16(h[14:])) }

// Offset is the stream offset of the first payload byte.
func (h *Header) Offset() uint64 { return binary.LittleEndian.Uint64(h[16:]) }

// Seq is the sequence number of the first message, or of the next one in a heartbeat.
func (h *Header) Seq() uint64 { return binary.LittleEndian.Uint64(h[24:]) }

// SendTime is in nanoseconds since 1970, UTC.
func (h *Header) SendTime() int64 { return int64(binary.LittleEndian.Uint64(h[32:])) }

// Parse checks a segment: that all messages its header counts lie inside it. Blocks is them, each behind its length.
func Parse(b []byte) (h *Header, blocks []byte, err error) {
	if len(b) < HeaderLen {
		return nil, nil, ErrShort
	}
	h = (*Header)(b)
	if h[0] != 1 {
		return nil, nil, ErrVersion
	}
	n := h.PayloadLen()
	if n > len(b)-HeaderLen {
		return nil, nil, ErrLength
	}
	blocks = b[HeaderLen:][:n]
	rest := blocks
	count := uint32(0)
	for ; len(rest) >= 2; count++ {
		m := 2 + int(binary.LittleEndian.Uint16(rest))
		if m > len(rest) {
			return nil, nil, ErrLength
		}
		rest = rest[m:]
	}
	if len(rest) > 0 {
		return nil, nil, ErrLength
	}
	if count != h.Count() {
		return nil, nil, ErrCount
	}
	return h, blocks, nil
}

// Next cuts the first message off blocks that Parse has checked; nil at the end.
func Next(blocks []byte) (message, rest []byte) {
	if len(blocks) < 2 {
		return nil, nil
	}
	n := 2 + int(binary.LittleEndian.Uint16(blocks))
	if n > len(blocks) {
		return nil, nil
	}
	return blocks[2:n], blocks[n:]
}

// Segment is what AppendHeader writes.
type Segment struct {
	Protocol         uint16
	Channel, Session uint32
	Offset, Seq      uint64
	SendTime         int64
}

// AppendHeader begins a segment; Finish ends it.
func AppendHeader(b []byte, s Segment) []byte {
	b = append(b, 1, 0)
	b = binary.LittleEndian.AppendUint16(b, s.Protocol)
	b = binary.LittleEndian.AppendUint32(b, s.Channel)
	b = binary.LittleEndian.AppendUint32(b, s.Session)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, s.Offset)
	b = binary.LittleEndian.AppendUint64(b, s.Seq)
	return binary.LittleEndian.AppendUint64(b, uint64(s.SendTime))
}

// AppendMessage adds a message behind its length.
func AppendMessage(b, message []byte) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(len(message)))
	return append(b, message...)
}

// Finish writes length and count into a segment that holds nothing but header and messages.
func Finish(b []byte, count int) {
	binary.LittleEndian.PutUint16(b[12:], uint16(len(b)-HeaderLen))
	binary.LittleEndian.PutUint16(b[14:], uint16(count))
}
