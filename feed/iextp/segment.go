package iextp

import (
	"encoding/binary"
	"errors"

	"github.com/socketxtreme/socketxtreme/feed"
)

// HeaderLen is the length of a segment's header, bytes.
const HeaderLen = 40

// Message protocols.
const (
	TOPS16 = 0x8003 // TOPS 1.6
	DEEP10 = 0x8004 // DEEP 1.0
)

// The reasons for which Parse refuses a packet.
var (
	ErrShort   = errors.New("iextp: packet shorter than its header")
	ErrVersion = errors.New("iextp: version is not 1")
	ErrLength  = errors.New("iextp: payload or message longer than the bytes there are")
	ErrCount   = errors.New("iextp: message count of the header is not the number of messages")
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

// Parse reads a packet. Messages is what follows the header, for Next.
func Parse(packet []byte) (h *Header, messages []byte, err error) {
	if len(packet) < HeaderLen {
		return nil, nil, refuse(ErrShort, 0, len(packet), HeaderLen)
	}
	h = (*Header)(packet)
	if h[0] != 1 {
		return nil, nil, refuse(ErrVersion, 0, int(h[0]), 1)
	}
	n := h.PayloadLen()
	if n > len(packet)-HeaderLen {
		return nil, nil, refuse(ErrLength, HeaderLen, len(packet)-HeaderLen, n)
	}
	messages = packet[HeaderLen:][:n]
	count, at := uint32(0), 0
	for ; n-at >= 2; count++ {
		m := 2 + int(binary.LittleEndian.Uint16(messages[at:]))
		if m > n-at {
			return nil, nil, refuse(ErrLength, HeaderLen+at, n-at, m)
		}
		at += m
	}
	if at < n {
		return nil, nil, refuse(ErrLength, HeaderLen+at, n-at, 2)
	}
	if count != h.Count() {
		return nil, nil, refuse(ErrCount, 14, int(h.Count()), int(count))
	}
	return h, messages, nil
}

// refuse is apart from Parse so that the usual packet does not pay for it.
func refuse(reason error, offset, have, want int) error {
	return &feed.FormatError{Reason: reason, Type: feed.NoType, Offset: offset, Have: have, Want: want}
}

// Next takes the first message off messages that Parse has accepted, without its length; it is nil at the end. A
// message may be empty.
func Next(messages []byte) (message, rest []byte) {
	if len(messages) < 2 {
		return nil, nil
	}
	n := 2 + int(binary.LittleEndian.Uint16(messages))
	if n > len(messages) {
		return nil, nil
	}
	return messages[2:n], messages[n:]
}

// Segment is the header of a packet to be written.
type Segment struct {
	Protocol         uint16
	Channel, Session uint32
	Offset, Seq      uint64
	SendTime         int64
}

// AppendHeader begins a packet. AppendMessage adds messages to it and Finish completes the header.
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

// AppendMessage adds a message and its length.
func AppendMessage(b, message []byte) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(len(message)))
	return append(b, message...)
}

// Finish writes payload length and message count into b, which is one whole packet.
func Finish(b []byte, count int) {
	binary.LittleEndian.PutUint16(b[12:], uint16(len(b)-HeaderLen))
	binary.LittleEndian.PutUint16(b[14:], uint16(count))
}
