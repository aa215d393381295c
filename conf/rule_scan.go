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
	word    tokenKind = iota // a keyword
	number                   // without leading zeros
	sign                     // one of * . / : -
	newline                  //
	ending                   // of the text
	unknown                  // what the grammar has no use for
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

// quote is text as an error shows it: escaped, and its beginning only where it is long.
func quote(text string) string { return strconv.Quote(cut(text)) }

// cut is the beginning of a text.
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

// keywords, the longer of two with one beginning first: blanks between tokens are not required, so the longest counts.
var keywords = []string{"application-id", "udp_receiver", "udp_connect", "destination", "udp_sender", "tcp_server", "tcp_client",
	"min-level", "ystderr", "stderr", "syslog", "yfile", "file", "xlio", "log", "use", "vma", "sdp", "os", "sa", "sx"}

// ours are the keywords that VMA's scanner does not have.
var ours = map[string]bool{"stderr": true, "file": true, "xlio": true, "sx": true}

// scanner cuts a rules file into tokens. (libvma, config_scanner.l)
type scanner struct {
	text         string
	at           int
	line, column int
	asVMA        bool
}

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

// skip goes over blanks. A return before a newline is one: files that were edited elsewhere say what they mean (VMA stops there).
func (s *scanner) skip() {
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

func (s *scanner) next() token {
	s.skip()
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
		t.kind, t.text = unknown, run(rest)
		for _, k := range keywords {
			if strings.HasPrefix(rest, k) && !(s.asVMA && ours[k]) {
				t.kind, t.text = word, k
				break
			}
		}
	}
	s.advance(len(t.text))
	return t
}

// name reads a run of anything but blanks, as application-id lines and file names have it.
func (s *scanner) name() token {
	s.skip()
	t := token{kind: ending, line: s.line, column: s.column}
	if s.at == len(s.text) {
		return t
	}
	if s.text[s.at] == '\n' {
		t.kind = newline
		return t
	}
	t.kind, t.text = word, run(s.text[s.at:])
	s.advance(len(t.text))
	if s.asVMA {
		return t
	}
	if s.at == len(s.text) || s.text[s.at] == '\n' {
		if t.text = strings.TrimSuffix(t.text, "\r"); t.text == "" {
			t.kind = newline
		}
	}
	if strings.Contains(t.text, "\r") {
		t.kind = unknown
	}
	return t
}

// digits is the number at the head of text; a leading zero stands alone.
func digits(text string) string {
	n := 1
	for text[0] != '0' && n < len(text) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	return text[:n]
}

// decimal is the value of digits; of so many that it does not fit, more than any limit.
func decimal(digits string) (n uint64) {
	for _, c := range digits {
		if n > 1<<56 {
			return 1 << 60
		}
		n = n*10 + uint64(c-'0')
	}
	return n
}

// run is what comes before the next blank, at least one byte.
func run(text string) string {
	if n := strings.IndexAny(text, " \t\n"); n > 0 {
		return text[:n]
	}
	return text
}
