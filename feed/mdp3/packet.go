package mdp3

import (
	"encoding/binary"
	"errors"

	"github.com/socketxtreme/socketxtreme/feed"
)

const (
	// HeaderLen is the length of a packet's header, bytes.
	HeaderLen = 12
	// messageHeaderLen is the size and the SBE header of a message.
	messageHeaderLen = 10
	// groupHeaderLen is the usual header of a repeating group.
	groupHeaderLen = 3
)

// The reasons for which a packet or a message is refused.
var (
	ErrShort  = errors.New("mdp3: packet shorter than its header")
	ErrSize   = errors.New("mdp3: message size does not fit into the packet")
	ErrBlock  = errors.New("mdp3: block longer than its message")
	ErrGroup  = errors.New("mdp3: group longer than its message, or entries too short")
	ErrSchema = errors.New("mdp3: schema is not 1")
)

// Packet is a packet's header; holding one proves that 12 bytes are there.
type Packet [HeaderLen]byte

// Seq is the sequence number of the packet in its channel.
func (p *Packet) Seq() uint32 { return binary.LittleEndian.Uint32(p[0:]) }

// SendingTime is in nanoseconds since 1970.
func (p *Packet) SendingTime() int64 { return int64(binary.LittleEndian.Uint64(p[4:])) }

// Parse reads a packet. Messages is what follows the header, for Next.
func Parse(packet []byte) (p *Packet, messages []byte, err error) {
	if len(packet) < HeaderLen {
		return nil, nil, refuse(ErrShort, feed.NoType, 0, len(packet), HeaderLen)
	}
	for at := HeaderLen; at < len(packet); {
		rest := len(packet) - at
		if rest < messageHeaderLen {
			return nil, nil, refuse(ErrSize, feed.NoType, at, rest, messageHeaderLen)
		}
		n := int(binary.LittleEndian.Uint16(packet[at:]))
		if n < messageHeaderLen || n > rest {
			return nil, nil, refuse(ErrSize, feed.NoType, at, rest, n)
		}
		at += n
	}
	return (*Packet)(packet), packet[HeaderLen:], nil
}

// refuse is apart so that the usual packet does not pay for it.
func refuse(reason error, template, offset, have, want int) error {
	return &feed.FormatError{Reason: reason, Type: template, Offset: offset, Have: have, Want: want}
}

// Next takes the first message off messages that Parse has accepted; it is nil at the end.
func Next(messages []byte) (m Message, rest []byte) {
	if len(messages) < messageHeaderLen {
		return nil, nil
	}
	n := int(binary.LittleEndian.Uint16(messages))
	if n < messageHeaderLen || n > len(messages) {
		return nil, nil
	}
	return Message(messages[:n]), messages[n:]
}
