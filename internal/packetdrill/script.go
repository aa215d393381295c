package packetdrill

import (
	"fmt"
	"strings"
	"time"
)

// Script is a parsed script.
type Script struct {
	Name       string
	Tolerance  time.Duration // of every time
	Tick       time.Duration // of the subject's timestamp clock; 0: values are only matched with each other
	Statements []Statement
}

// Statement is one line of a script: exactly one of Segment, ICMP, Call and Checks is set.
type Statement struct {
	Line int
	Text string
	When When

	Inbound bool // of Segment and ICMP
	Segment *Segment
	ICMP    *ICMP
	Call    *Call
	Checks  []Check
}

// When is the time of a statement.
type When struct {
	Kind     WhenKind
	From, To time.Duration // From equals To but for ranges
	Blocks   bool          // a call that returns at To, not at From
}

// WhenKind says from when the times of a When are counted.
type WhenKind uint8

// The kinds of time.
const (
	Absolute WhenKind = iota // from the script's beginning
	Relative                 // from the statement before
	AnyTime
)

// Segment is a TCP segment as the script has it.
type Segment struct {
	Packet
	Length     int
	End        uint32
	HasAck     bool
	HasWindow  bool
	HasUrgent  bool
	HasECN     bool
	AnyOptions bool
}

// ICMP is an ICMP error that quotes a segment of the subject.
type ICMP struct {
	Error
	HasQuote bool
	Length   int
}

// Packet is a TCP segment on the wire, with the subject's own numbers.
type Packet struct {
	Seq, Ack uint32
	Flags    Flags
	Window   uint16 // as in the header, not scaled
	Urgent   uint16
	ECN      uint8 // the two bits of the IP header (RFC 3168)
	Options  []Option
	Payload  []byte
}

// Error is an ICMP error (RFC 792) about the segment that begins with a sequence number.
type Error struct {
	Type, Code uint8
	MTU        uint16 // of frag_needed
	Seq        uint32
}

// Flags are the control bits of the TCP header.
type Flags uint8

// The control bits in their places.
const (
	FIN Flags = 1 << iota
	SYN
	RST
	PSH
	ACK
	URG
	ECE
	CWR
)

const flagLetters = "FSRP.UEW"

// String writes the flags as scripts do, SYN first.
func (f Flags) String() string {
	var b strings.Builder
	for _, x := range []Flags{SYN, FIN, RST, PSH, URG, ECE, CWR, ACK} {
		if f&x != 0 {
			for i := range flagLetters {
				if x == 1<<i {
					b.WriteByte(flagLetters[i])
				}
			}
		}
	}
	if b.Len() == 0 {
		return "-"
	}
	return b.String()
}

// Option is one TCP option.
type Option struct {
	Kind     uint8 // as on the wire; OptionRaw for bytes
	Value    uint32
	Val, Ecr uint32
	Blocks   [][2]uint32
	Raw      []byte
}

// The kinds of option (IANA), and bytes as they are.
const (
	OptionEnd           = 0
	OptionNop           = 1
	OptionMSS           = 2
	OptionWindowScale   = 3
	OptionSACKPermitted = 4
	OptionSACK          = 5
	OptionTimestamps    = 8
	OptionRaw           = 255
)

// String writes the option as scripts do.
func (o Option) String() string {
	switch o.Kind {
	case OptionEnd:
		return "eol"
	case OptionNop:
		return "nop"
	case OptionMSS:
		return fmt.Sprintf("mss %d", o.Value)
	case OptionWindowScale:
		return fmt.Sprintf("wscale %d", o.Value)
	case OptionSACKPermitted:
		return "sackOK"
	case OptionSACK:
		var b strings.Builder
		b.WriteString("sack")
		for _, x := range o.Blocks {
			fmt.Fprintf(&b, " %d:%d", x[0], x[1])
		}
		return b.String()
	case OptionTimestamps:
		return fmt.Sprintf("TS val %d ecr %d", o.Val, o.Ecr)
	}
	return fmt.Sprintf("raw %x", o.Raw)
}

// optionsString formats options in the script's notation.
func optionsString(list []Option) string {
	text := make([]string, len(list))
	for i, o := range list {
		text[i] = o.String()
	}
	return "<" + strings.Join(text, ",") + ">"
}

// Call is a system call with its expected result.
type Call struct {
	Name  string
	Args  []Arg
	Value int64 // the expected result
	Any   bool  // any result will do: "= ..." or none
	Errno string
}

// Arg is an argument: exactly one of its kinds.
type Arg struct {
	Kind   ArgKind
	Int    int64
	Text   string // a string's text, or symbols joined by |
	List   []Arg
	Fields []Field // of a structure, in order
}

// Field is a member of a structure.
type Field struct {
	Name  string
	Value Arg
}

// ArgKind is what an argument is.
type ArgKind uint8

// The kinds of argument.
const (
	ArgAny ArgKind = iota // ...
	ArgInt
	ArgString
	ArgSymbol // SOCK_STREAM, O_RDWR|O_NONBLOCK
	ArgList   // [a, b]
	ArgStruct // {fd=4, events=POLLIN}
)

// Has reports whether the argument is a symbol or several, this one among them.
func (a Arg) Has(symbol string) bool {
	if a.Kind != ArgSymbol {
		return false
	}
	for s := range strings.SplitSeq(a.Text, "|") {
		if s == symbol {
			return true
		}
	}
	return false
}

// Field finds a member by its name.
func (a Arg) Field(name string) (Arg, bool) {
	for _, f := range a.Fields {
		if f.Name == name {
			return f.Value, true
		}
	}
	return Arg{}, false
}

// Check compares a value of the subject, by its name, with another, or with a number.
type Check struct {
	Line     int
	Name, Op string
	Value    int64
	Symbol   string // in the place of Value
}
