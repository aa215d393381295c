package resp

import (
	"bytes"
	"math"
)

// Limits bound one command. DefaultLimits are redis's own but for Args.
type Limits struct {
	Line    int // bytes of an inline command, and of a line with a length
	Args    int // arguments of a command, its name included
	Bulk    int // bytes of one argument
	Command int // bytes of a whole command, as it travels; at most 4 GiB
}

// DefaultLimits are redis's PROTO_INLINE_MAX_SIZE, the multibulk length that redis took before 7.0, proto-max-bulk-len and
// client-query-buffer-limit. Since 7.0 redis takes 2^31-1 arguments; a million is what this server wants to remember of one command.
var DefaultLimits = Limits{Line: 64 << 10, Args: 1 << 20, Bulk: 512 << 20, Command: 1 << 30}

// ProtocolError is sent to a client before its connection is closed, because the begin of the next command is not known.
type ProtocolError string

// Error is the sentence as redis has it, without its "ERR ".
func (e ProtocolError) Error() string { return "Protocol error: " + string(e) }

// Parser finds commands in the bytes of one connection. It belongs to that connection, and to one goroutine.
//
// It remembers how far it came in a command that has not arrived whole, so that a long one is read once and not from its start with
// each part of it.
type Parser struct {
	limits *Limits
	spans  []span // arguments found so far of the command under way
	at     int    // how many of its bytes are understood
	left   int    // arguments to come; 0: not yet known
	bulk   int    // length of the next argument; -1: not yet known
	need   int    // bytes that must be there before Next can come further
}

// span is where an argument lies, counted from the first byte of its command.
type span struct{ from, to uint32 }

// keptSpans is how many spans a parser keeps memory for between commands.
const keptSpans = 64

// NewParser returns a parser with these limits, which must stay as they are.
func NewParser(l *Limits) Parser { return Parser{limits: l, bulk: -1, need: 1} }

// Need is how many bytes, from the first of the command under way, must have arrived before Next can do more; at least 1. A server
// need not look at its buffer before.
func (p *Parser) Need() int { return p.need }

// Next takes the first command of b, which begins with the first byte of the command under way. It appends the arguments to args and
// returns them with the number of bytes the command took. They are part of b, with the exception of inline commands in quotes.
//
// n is 0 when the command has not arrived whole; the bytes must then stay where b begins. n above 0 without arguments is an empty
// line or an empty array, for which there is no answer. The error is a ProtocolError, after which the parser is of no more use.
func (p *Parser) Next(b []byte, args [][]byte) (out [][]byte, n int, err error) {
	if len(b) < p.need {
		return args, 0, nil
	}
	if b[0] != '*' {
		return p.inline(b, args)
	}
	if p.left == 0 {
		count, ok, err := p.number(b, "mbulk count string")
		if err != nil || p.need > 1 { // need > 1: the line is not all there
			return args, 0, err
		}
		if !ok || count > int64(p.limits.Args) {
			return args, 0, ProtocolError("invalid multibulk length")
		}
		if count <= 0 {
			return args, p.done(), nil
		}
		p.left = int(count)
	}
	for p.left > 0 {
		if whole, err := p.argument(b); !whole {
			return args, 0, err
		}
	}
	for _, s := range p.spans {
		args = append(args, b[s.from:s.to:s.to])
	}
	return args, p.done(), nil
}

// argument reads one; whole is false when it is not all there, or wrong.
func (p *Parser) argument(b []byte) (whole bool, err error) {
	p.need = 1
	if p.bulk < 0 {
		from := p.at
		length, ok, err := p.number(b, "bulk count string")
		if err != nil || p.need > 1 {
			return false, err
		}
		if b[from] != '$' {
			return false, ProtocolError("expected '$', got '" + string(rune(printable(b[from]))) + "'")
		}
		if !ok || length < 0 || length > int64(p.limits.Bulk) {
			return false, ProtocolError("invalid bulk length")
		}
		p.bulk = int(length)
	}
	end := p.at + p.bulk
	if end+2 > min(p.limits.Command, math.MaxUint32) {
		return false, ProtocolError("too big request")
	}
	if len(b) < end+2 {
		p.need = end + 2
		return false, nil
	}
	p.spans = append(p.spans, span{uint32(p.at), uint32(end)})
	p.at = end + 2 // redis takes these two bytes unread, too
	p.bulk = -1
	p.left--
	return true, nil
}

// number reads the line at p.at, a letter and an integer. When the line is not all there, need says so and p stays where it is.
func (p *Parser) number(b []byte, what string) (v int64, ok bool, err error) {
	line := b[p.at:]
	p.need = 1
	end := bytes.IndexByte(line, '\r')
	if end > p.limits.Line || end < 0 && len(line) > p.limits.Line {
		return 0, false, ProtocolError("too big " + what)
	}
	if end < 0 || end+2 > len(line) {
		p.need = len(b) + 1
		return 0, false, nil
	}
	if end == 0 { // a line without even its letter
		return 0, false, nil
	}
	v, ok = ParseInt(line[1:end])
	p.at += end + 2
	return v, ok, nil
}

// done forgets the command and returns its length.
func (p *Parser) done() (n int) {
	n = p.at
	p.at, p.left, p.bulk, p.need = 0, 0, -1, 1
	if cap(p.spans) > keptSpans {
		p.spans = nil
	}
	p.spans = p.spans[:0]
	return n
}

// printable is c, or a space where redis would send a byte that is none: the sentence goes into one line.
func printable(c byte) byte {
	if c < ' ' || c > '~' {
		return ' '
	}
	return c
}

// ParseInt reads a whole decimal integer as strictly as redis does: no sign but '-', no leading zeros, no spaces.
func ParseInt(b []byte) (v int64, ok bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 19 || b[0] == '0' && (len(b) > 1 || negative) {
		return 0, false
	}
	var u uint64
	for _, c := range b { // 19 digits cannot overflow 64 bits
		if c < '0' || c > '9' {
			return 0, false
		}
		u = u*10 + uint64(c-'0')
	}
	if negative {
		return -int64(u), u <= 1<<63
	}
	return int64(u), u < 1<<63
}
