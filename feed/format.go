package feed

import "fmt"

// FormatError says why a decoder refuses a packet or a message. The decoders below package feed (iextp, mdp3, moldudp64, itch, pitch)
// return it as a pointer.
//
//	var e *feed.FormatError
//	errors.As(err, &e)              // which byte of the input, and which numbers
//	errors.Is(err, iextp.ErrLength) // which kind of fault
type FormatError struct {
	Reason error // the decoder's own value, such as iextp.ErrLength
	Type   int   // type or template of a message; NoType for a packet
	Offset int   // byte of the input at which the decoder stopped
	Have   int   // what is there, in the unit of Reason: bytes, messages, a version
	Want   int   // what the decoder needs there
}

// NoType is the Type of a FormatError that is about a packet.
const NoType = -1

// Error names the kind of fault, the message type, the place and the numbers.
func (e *FormatError) Error() string {
	if e.Type == NoType {
		return fmt.Sprintf("%v: at byte %d: have %d, want %d", e.Reason, e.Offset, e.Have, e.Want)
	}
	return fmt.Sprintf("%v: type %s at byte %d: have %d, want %d", e.Reason, TypeName(e.Type), e.Offset, e.Have, e.Want)
}

// Unwrap returns Reason.
func (e *FormatError) Unwrap() error { return e.Reason }

// TypeName writes a message type in each way that a specification may: 65 (0x41, 'A').
func TypeName(t int) string {
	if t > ' ' && t < 0x7f {
		return fmt.Sprintf("%d (0x%02x, '%c')", t, t, t)
	}
	return fmt.Sprintf("%d (0x%02x)", t, t)
}
