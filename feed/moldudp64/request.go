package moldudp64

import (
	"encoding/binary"
	"errors"
	"math"
)

// Request asks for Count messages of a session, from sequence number Seq on.
type Request struct {
	Session string
	Seq     uint64
	Count   uint16 // 1 to MaxRequest
}

// ErrRequest is the reason for which ParseRequest refuses a request.
var ErrRequest = errors.New("moldudp64: not a request for 1 to 65,534 messages")

// Append writes the request behind b.
func (r Request) Append(b []byte) []byte { return AppendHeader(b, r.Session, r.Seq, r.Count) }

// ParseRequest reads a request, as a recovery server does. A *feed.FormatError says what is wrong: the length of the packet, the count of
// messages (Have, and the nearest allowed count in Want), or that fewer sequence numbers follow Seq (Have) than messages are asked for (Want).
func ParseRequest(b []byte) (r Request, err error) {
	if len(b) != HeaderLen {
		return r, refuse(ErrRequest, 0, len(b), HeaderLen)
	}
	h := (*Header)(b)
	n := binary.BigEndian.Uint16(b[18:])
	if n == 0 || n > MaxRequest {
		return r, refuse(ErrRequest, 18, int(n), min(max(int(n), 1), MaxRequest))
	}
	if left := math.MaxUint64 - h.Seq(); uint64(n) > left { // there are no sequence numbers behind the largest one
		return r, refuse(ErrRequest, 10, int(left), int(n))
	}
	return Request{Session: h.Session(), Seq: h.Seq(), Count: n}, nil
}
