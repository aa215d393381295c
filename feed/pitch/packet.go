package pitch

import (
	"encoding/binary"
	"errors"

	"github.com/socketxtreme/socketxtreme/feed"
)

// HeaderLen is the length of the sequenced unit header, bytes.
const HeaderLen = 8

// The reasons for which a packet or a message is refused.
var (
	ErrShort  = errors.New("pitch: packet or message too short")
	ErrLength = errors.New("pitch: messages do not fill the packet")
	ErrType   = errors.New("pitch: message of another type")
)

// Header is the sequenced unit header; holding one proves that 8 bytes are there.
type Header [HeaderLen]byte

// Len is the length of the packet, header included.
func (h *Header) Len() int { return int(binary.LittleEndian.Uint16(h[0:])) }

// Count is the number of messages; 0 is a heartbeat.
func (h *Header) Count() uint32 { return uint32(h[2]) }

// Unit is whose sequence it is.
func (h *Header) Unit() uint8 { return h[3] }

// Seq is the sequence number of the first message, or of the next one in a heartbeat; 0 is unsequenced.
func (h *Header) Seq() uint32 { return binary.LittleEndian.Uint32(h[4:]) }

// Parse reads a packet. Messages is what follows the header, for Next. Bytes behind the length in the header are padding.
func Parse(packet []byte) (h *Header, messages []byte, err error) {
	if len(packet) < HeaderLen {
		return nil, nil, refusePacket(ErrShort, 0, len(packet), HeaderLen)
	}
	h = (*Header)(packet)
	n := h.Len()
	if n < HeaderLen || n > len(packet) {
		return nil, nil, refusePacket(ErrLength, 0, len(packet), n)
	}
	at := HeaderLen
	for range h.Count() {
		if n-at < 2 {
			return nil, nil, refusePacket(ErrLength, at, n-at, 2)
		}
		m := int(packet[at])
		if m < 2 || m > n-at {
			return nil, nil, refusePacket(ErrLength, at, n-at, m)
		}
		at += m
	}
	if at < n {
		return nil, nil, refusePacket(ErrLength, at, n-at, 0)
	}
	return h, packet[HeaderLen:n], nil
}

// refusePacket is apart from Parse so that the usual packet does not pay for it.
func refusePacket(reason error, offset, have, want int) error {
	return &feed.FormatError{Reason: reason, Type: feed.NoType, Offset: offset, Have: have, Want: want}
}

// Next takes the first message off messages that Parse has accepted, with its length byte; it is nil at the end.
func Next(messages []byte) (message, rest []byte) {
	if len(messages) < 2 || messages[0] < 2 || int(messages[0]) > len(messages) {
		return nil, nil
	}
	return messages[:messages[0]], messages[messages[0]:]
}
