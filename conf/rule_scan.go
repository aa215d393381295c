package conf

import (
	"strconv"
	"strings"
)

// token is one piece of a rules file.
type token struct {
	kind         tokenKind
	text         string
	number       uint64
	line, column int
}

type tokenKind uint8

const (
	word    tokenKind = iota // a keyword, or any text where a name is read
	number                   // a decimal number without leading zeros
	sign                     // one of * . / : -
	newline                  // the end of a line
	ending                   // the end of the text
	unknown                  // anything else, which is a mistake
)

func (t token) is(kind tokenKind, text string) bool { return t.kind == kind && t.text == text }

// String is the token as an error quotes it.
func (t token) String() string {
	switch t.kind {
	case newline:
		return "the end of the line"
	case ending:
		return "the end of the rules"
	}
	return quote(t.text)
}

// quote returns text as an error shows it: in quotation marks, escaped, and cut.
func quote(text string) string { return strconv.Quote(cut(text)) }

// cut returns the first 40 characters of text, with an ellipsis if there are more, so that errors stay short whatever the file has.
func cut(text string) string {
	const most = 40
	n := 0
	for i := range text {
		if n++; n > most {
			return text[:i] + "…"
		}
	}
	return text
}

// keywords are the words of the grammar. A longer one stands before those that it begins with, because the first that fits is taken.
var keywords = []string{"application-id", "udp_receiver", "udp_connect", "destination", "udp_sender", "tcp_server", "tcp_client",
	"min-level", "ystderr", "stderr", "syslog", "yfile", "file", "xlio", "log", "use", "vma", "sdp", "os", "sa", "sx"}

// notInVMA are the keywords that VMA's scanner does not have.
var notInVMA = map[string]bool{"stderr": true, "file": true, "xlio": true, "sx": true}

// beforeName are the keywords that any text may follow: a program's name or a file's.
var beforeName = map[string]bool{"application-id": true, "file": true, "yfile": true}

// scanner cuts a rules file into tokens. (libvma, config_scanner.l)
type scanner struct {
	text         string
	at           int  // offset of the next byte to read
	line, column int  // of that byte, from 1
	asVMA        bool // cut exactly as VMA's scanner does
}

// advance goes n bytes on and counts lines and columns.
func (s *scanner) advance(n int) {
	for range n {
		if s.text[s.at] == '\n' {
			s.line++
			s.column = 0
		}
		s.at++
		s.column++
	}
}

// skipBlanks goes on to the next byte that is no blank: no space, no tab, and no carriage return before a newline. VMA's scanner takes a
// carriage return for a mistake; files that were written on Windows have one on each line.
func (s *scanner) skipBlanks() {
	for s.at < len(s.text) {
		c := s.text[s.at]
		switch {
		case c == ' ' || c == '\t':
		case c == '\r' && !s.asVMA && strings.HasPrefix(s.text[s.at:], "\r\n"):
		default:
			return
		}
		s.advance(1)
	}
}

// next reads one token, and is called by the parser whenever it has used the one before. A remark, from "#" to the end of its line, is
// passed over.
func (s *scanner) next() token {
	s.skipBlanks()
	if s.at < len(s.text) && s.text[s.at] == '#' {
		n := strings.IndexByte(s.text[s.at:], '\n')
		if n < 0 {
			n = len(s.text) - s.at
		}
		s.advance(n)
	}
	t := token{kind: ending, line: s.line, column: s.column}
	if s.at == len(s.text) {
		return t
	}
	rest := s.text[s.at:]
	switch c := rest[0]; {
	case c == '\n':
		t.kind, t.text = newline, rest[:1]
	case strings.IndexByte("*./:-", c) >= 0:
		t.kind, t.text = sign, rest[:1]
	case c >= '0' && c <= '9':
		t.kind, t.text = number, digits(rest)
		t.number = decimal(t.text)
	default:
		t.kind, t.text = s.word(rest)
	}
	s.advance(len(t.text))
	return t
}

// word reads the keyword at the head of rest, or a token of kind unknown. As in VMA no blank is required between keywords: "useos" is "use
// os". Letters behind a keyword that begin no other keyword are therefore a misspelling, and the unknown token is the whole word: the error
// shows "udp_receivers", not "s".
func (s *scanner) word(rest string) (tokenKind, string) {
	k := s.keyword(rest)
	if k == "" {
		return unknown, untilBlank(rest)
	}
	behind := rest[len(k):]
	if s.asVMA || beforeName[k] || behind == "" || !isLetter(behind[0]) && behind[0] != '_' || s.keyword(behind) != "" {
		return word, k
	}
	n := 0
	for n < len(behind) && (isLetter(behind[n]) || isDigit(behind[n]) || behind[n] == '_' || behind[n] == '-') {
		n++
	}
	return unknown, rest[:len(k)+n]
}

// keyword returns the keyword that text begins with, or "".
func (s *scanner) keyword(text string) string {
	for _, k := range keywords {
		if strings.HasPrefix(text, k) && !(s.asVMA && notInVMA[k]) {
			return k
		}
	}
	return ""
}

// name reads a program's name, an application id or a file's name: any text up to the next blank, as a token of kind word. At the end of
// the line or of the text the token has that kind instead, and the caller reports what is missing.
func (s *scanner) name() token {
	s.skipBlanks()
	t := token{kind: ending, line: s.line, column: s.column}
	if s.at == len(s.text) {
		return t
	}
	if s.text[s.at] == '\n' {
		t.kind = newline
		return t
	}
	t.kind, t.text = word, untilBlank(s.text[s.at:])
	s.advance(len(t.text))
	if s.asVMA { // a carriage return is a part of the name there
		return t
	}
	if s.at == len(s.text) || s.text[s.at] == '\n' { // of a line that ends in CRLF, which ends the name
		if t.text = strings.TrimSuffix(t.text, "\r"); t.text == "" {
			t.kind = newline
		}
	}
	if strings.Contains(t.text, "\r") { // within the name
		t.kind = unknown
	}
	return t
}

// digits returns the number at the head of text, which begins with a digit. A leading zero is a number by itself, as in VMA.
func digits(text string) string {
	n := 1
	for text[0] != '0' && n < len(text) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	return text[:n]
}

// decimal returns the value of digits. For a number too large for the arithmetic it returns 1<<60, which is beyond every limit of the
// grammar, so that the parser refuses it.
func decimal(digits string) (n uint64) {
	for _, c := range digits {
		if n > 1<<56 {
			return 1 << 60
		}
		n = n*10 + uint64(c-'0')
	}
	return n
}

// untilBlank returns text up to the next space, tab or newline, but at least one byte.
func untilBlank(text string) string {
	if n := strings.IndexAny(text, " \t\n"); n > 0 {
		return text[:n]
	}
	return text
}
