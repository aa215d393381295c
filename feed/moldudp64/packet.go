package moldudp64

import (
	"encoding/binary"
	"errors"

	"github.com/socketxtreme/socketxtreme/feed"
)

const (
	// HeaderLen is the length of a packet's header and of a request, bytes.
	HeaderLen = 20
	// EndOfSession is the count that ends a session.
	EndOfSession = 0xffff
	// MaxRequest is the most messages that one request may ask for.
	MaxRequest = 0xfffe
)

// The reasons for which Parse refuses a packet.
var (
	ErrShort  = errors.New("moldudp64: packet shorter than its header")
	ErrLength = errors.New("moldudp64: message longer than the bytes there are")
)

// Header is a packet's header; holding one proves that 20 bytes are there.
type Header [HeaderLen]byte

// Session is the ten characters of the session.
func (h *Header) Session() string { return string(h[:10]) }

// SessionKey packs the session into a number, six bits a character: equal sessions have equal keys. For digits, capital letters and
// spaces, which Nasdaq uses, the reverse holds too, and SessionName gives the text back.
func (h *Header) SessionKey() (k uint64) {
	for _, c := range h[:10] {
		k = k<<6 | uint64(c-' ')&63
	}
	return k
}

// SessionName is the session that SessionKey packed.
func SessionName(key uint64) string {
	var b [10]byte
	for i := range b {
		b[9-i] = byte(key>>(6*i))&63 + ' '
	}
	return string(b[:])
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

// End reports that the session is over.
func (h *Header) End() bool { return h.RawCount() == EndOfSession }

// Parse reads a packet. Messages are the messages that the header counts, for Next. Bytes behind them are padding.
func Parse(packet []byte) (h *Header, messages []byte, err error) {
	if len(packet) < HeaderLen {
		return nil, nil, refuse(ErrShort, 0, len(packet), HeaderLen)
	}
	h = (*Header)(packet)
	at := HeaderLen
	for range h.Count() {
		if len(packet)-at < 2 {
			return nil, nil, refuse(ErrLength, at, len(packet)-at, 2)
		}
		m := 2 + int(binary.BigEndian.Uint16(packet[at:]))
		if m > len(packet)-at {
			return nil, nil, refuse(ErrLength, at, len(packet)-at, m)
		}
		at += m
	}
	return h, packet[HeaderLen:at], nil
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
	n := 2 + int(binary.BigEndian.Uint16(messages))
	if n > len(messages) {
		return nil, nil
	}
	return messages[2:n], messages[n:]
}

// AppendHeader begins a packet. AppendMessage adds messages to it and SetCount completes the header. A session is cut or padded to ten
// characters.
func AppendHeader(b []byte, session string, seq uint64, count uint16) []byte {
	at := len(b)
	b = append(b, "          "...)
	copy(b[at:], session)
	b = binary.BigEndian.AppendUint64(b, seq)
	return binary.BigEndian.AppendUint16(b, count)
}

// AppendMessage adds a message and its length.
func AppendMessage(b, message []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(message)))
	return append(b, message...)
}

// SetCount writes the number of messages into b, which is one whole packet.
func SetCount(b []byte, n int) { binary.BigEndian.PutUint16(b[18:], uint16(n)) }
