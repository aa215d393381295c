// Package moldudp64 reads and writes MoldUDP64 1.00, Nasdaq's multicast transport: a 20-byte header, then messages with
// their lengths, all big-endian.
//
//	| 0 session, 10 characters | 10 sequence of the first message | 18 count | length, message | …
package moldudp64

import (
	"encoding/binary"
	"errors"
)

const (
	// HeaderLen is the length of a packet's header and of a whole request, bytes.
	HeaderLen = 20
	// EndOfSession is the count that ends a session.
	EndOfSession = 0xffff
	// MaxRequest is the most messages one request may ask for.
	MaxRequest = 0xfffe
)

// The ways in which a packet is not one.
var (
	ErrShort  = errors.New("moldudp64: shorter than its header")
	ErrLength = errors.New("moldudp64: messages exceed the packet")
)

// Header is a downstream packet's header, or a request.
type Header [HeaderLen]byte

// Session is the ten characters of the session.
func (h *Header) Session() string { return string(h[:10]) }

// SessionKey folds the session into a number: equal sessions have equal keys, and for Nasdaq's (digits and capital
// letters) the reverse holds too: six bits a character, over ten characters, is 60 bits.
func (h *Header) SessionKey() (k uint64) {
	for _, c := range h[:10] {
		k = k<<6 | uint64(c-' ')&63
	}
	return k
}

// Seq is the sequence number of the first message; without messages, of the next one.
func (h *Header) Seq() uint64 { return binary.BigEndian.Uint64(h[10:]) }

// RawCount is the count as sent; EndOfSession is one of its values.
func (h *Header) RawCount() uint16 { return binary.BigEndian.Uint16(h[18:]) }

// Count is the number of messages.
func (h *Header) Count() uint32 {
	if n := h.RawCount(); n != EndOfSession {
		return uint32(n)
	}
	return 0
}

// End tells that the session is over.
func (h *Header) End() bool { return h.RawCount() == EndOfSession }

// Parse checks a downstream packet: that all messages its header counts lie inside it.
func Parse(b []byte) (h *Header, blocks []byte, err error) {
	if len(b) < HeaderLen {
		return nil, nil, ErrShort
	}
	h, blocks = (*Header)(b), b[HeaderLen:]
	rest := blocks
	for range h.Count() {
		if len(rest) < 2 {
			return nil, nil, ErrLength
		}
		m := 2 + int(binary.BigEndian.Uint16(rest))
		if m > len(rest) {
			return nil, nil, ErrLength
		}
		rest = rest[m:]
	}
	return h, blocks[:len(blocks)-len(rest)], nil
}

// Next cuts the first message off blocks that Parse has checked; nil at the end.
func Next(blocks []byte) (message, rest []byte) {
	if len(blocks) < 2 {
		return nil, nil
	}
	n := 2 + int(binary.BigEndian.Uint16(blocks))
	if n > len(blocks) {
		return nil, nil
	}
	return blocks[2:n], blocks[n:]
}

// AppendHeader writes a header: of a packet, or a request for count messages from seq on. A session is cut or padded to
// ten.
func AppendHeader(b []byte, session string, seq uint64, count uint16) []byte {
	at := len(b)
	b = append(b, "          "...)
	copy(b[at:], session)
	b = binary.BigEndian.AppendUint64(b, seq)
	return binary.BigEndian.AppendUint16(b, count)
}

// AppendMessage adds a message behind its length.
func AppendMessage(b, message []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(message)))
	return append(b, message...)
}

// SetCount writes the number of messages into a packet.
func SetCount(b []byte, n int) { binary.BigEndian.PutUint16(b[18:], uint16(n)) }
