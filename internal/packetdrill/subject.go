package packetdrill

import (
	"math"
	"time"
)

// Subject is the TCP that a script is played against, at one address, with one peer: the player. Times count from the script's
// beginning and never go back. All numbers in packets are the subject's own.
type Subject interface {
	// Input takes a segment from the peer, InputError an ICMP error that quotes one of the subject's segments.
	Input(now time.Duration, p Packet)
	InputError(now time.Duration, e Error)
	// Output gives the next packet that is to leave now, if there is one.
	Output(now time.Duration) (Packet, bool)
	// Deadline is when Expire is wanted next; Never if not at all.
	Deadline() time.Duration
	Expire(now time.Duration)
	// Call makes a system call that does not block.
	Call(now time.Duration, c Invocation) Result
	// Value is a value of a descriptor for a check, such as tcpi_snd_cwnd.
	Value(now time.Duration, fd int, name string) (int64, bool)
}

// Never is a deadline that does not come.
const Never time.Duration = math.MaxInt64

// Invocation is a system call as the subject gets it.
type Invocation struct {
	Name string
	FD   int // the first argument, as the subject numbers it; -1 if it is no descriptor
	Args []Arg
	Data []byte // of calls that send
	Size int    // of calls that receive
}

// Result is what a call did. A call that would block has Errno EAGAIN, EINPROGRESS or EALREADY.
type Result struct {
	Value int64
	Errno string // if Value is -1
	Data  []byte // what was received
	// Out are the values that the call wrote: of getsockopt an integer, of poll the event bits of each descriptor, joined by | in the order of
	// the alphabet.
	Out []string
}

// sendCalls and receiveCalls name the argument with the length.
var (
	sendCalls    = map[string]int{"write": 2, "send": 2, "sendto": 2}
	receiveCalls = map[string]int{"read": 2, "recv": 2, "recvfrom": 2}
	opening      = map[string]bool{"socket": true, "accept": true, "accept4": true}
)

// Byte returns the content of a stream at a position; it is the same in both directions.
func Byte(place uint32) byte {
	x := place * 0x9e3779b1
	return byte(x>>24 ^ x>>11)
}

// fill returns n bytes of a stream's content from a position on.
func fill(from uint32, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = Byte(from + uint32(i))
	}
	return b
}

// differs returns the first position at which bytes are not the stream's content, or -1.
func differs(from uint32, b []byte) int {
	for i, x := range b {
		if x != Byte(from+uint32(i)) {
			return i
		}
	}
	return -1
}
