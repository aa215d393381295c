package iextp

import (
	"encoding/binary"
	"errors"
)

// GapFill is a request for one range of messages. A server answers it with ordinary packets, sent to the address that the request
// came from.
type GapFill struct {
	Protocol         uint16
	Channel, Session uint32
	From, To         uint64 // messages From to To-1
}

// GapFillLen is the length of a request with one range, bytes.
const GapFillLen = 32

// ErrGapFill is the reason for which ParseGapFill refuses a request.
var ErrGapFill = errors.New("iextp: not a gap fill request for one range of messages")

// What a request says of itself: the transport's version, that ranges are of messages (not of bytes of the stream), and how many ranges follow.
const (
	gapFillVersion   = 1
	gapFillMessages  = 1
	gapFillRanges    = 1
	gapFillRangesAt  = 12
	gapFillFirstFrom = 16
	gapFillFirstTo   = 24 // the last message of the range, not the one behind it
)

// Append writes the request behind b.
func (g GapFill) Append(b []byte) []byte {
	b = append(b, gapFillVersion, gapFillMessages)
	b = binary.LittleEndian.AppendUint16(b, g.Protocol)
	b = binary.LittleEndian.AppendUint32(b, g.Channel)
	b = binary.LittleEndian.AppendUint32(b, g.Session)
	b = binary.LittleEndian.AppendUint32(b, gapFillRanges)
	b = binary.LittleEndian.AppendUint64(b, g.From)
	return binary.LittleEndian.AppendUint64(b, g.To-1)
}

// ParseGapFill reads a request.
func ParseGapFill(b []byte) (g GapFill, err error) {
	if len(b) != GapFillLen || b[0] != gapFillVersion || b[1] != gapFillMessages || binary.LittleEndian.Uint32(b[gapFillRangesAt:]) != gapFillRanges {
		return g, refuse(ErrGapFill, 0, len(b), GapFillLen)
	}
	g = GapFill{Protocol: binary.LittleEndian.Uint16(b[2:]), Channel: binary.LittleEndian.Uint32(b[4:]),
		Session: binary.LittleEndian.Uint32(b[8:]),
		From:    binary.LittleEndian.Uint64(b[gapFillFirstFrom:]), To: binary.LittleEndian.Uint64(b[gapFillFirstTo:]) + 1}
	if g.To <= g.From {
		return g, refuse(ErrGapFill, gapFillFirstTo, int(g.To-1), int(g.From))
	}
	return g, nil
}
