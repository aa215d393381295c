package packetdrill

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Parse reads a script. The name stands in errors, which have the form "name:line: what is wrong".
func Parse(name, text string) (*Script, error) {
	p := &parser{name: name, text: text}
	s := &Script{Name: name}
	err := p.script(s)
	if err != nil {
		return nil, err
	}
	return s, nil
}

type parser struct {
	name, text string
	at         int
}

func (p *parser) line() int { return 1 + strings.Count(p.text[:min(p.at, len(p.text))], "\n") }

func (p *parser) errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d: "+format, append([]any{p.name, p.line()}, args...)...)
}

// space skips white space and comments.
func (p *parser) space() error {
	for p.at < len(p.text) {
		rest := p.text[p.at:]
		switch {
		case strings.IndexByte(" \t\r\n", rest[0]) >= 0:
			p.at++
		case strings.HasPrefix(rest, "//") || rest[0] == '#' && p.atLineStart():
			if n := strings.IndexByte(rest, '\n'); n >= 0 {
				p.at += n
			} else {
				p.at = len(p.text)
			}
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest, "*/")
			if n < 0 {
				return p.errorf("the comment has no end")
			}
			p.at += n + 2
		default:
			return nil
		}
	}
	return nil
}

func (p *parser) atLineStart() bool {
	begin := strings.LastIndexByte(p.text[:p.at], '\n') + 1
	return strings.TrimSpace(p.text[begin:p.at]) == ""
}

// accept skips space, and then a fixed text if it is next; it reports whether it was.
func (p *parser) accept(word string) bool {
	saved := p.at
	if p.space() == nil && strings.HasPrefix(p.text[p.at:], word) {
		end := p.at + len(word)
		if !isLetter(word[len(word)-1]) || end == len(p.text) || !isLetter(p.text[end]) && !isDigit(p.text[end]) {
			p.at = end
			return true
		}
	}
	p.at = saved
	return false
}

// expect is accept with an error if the text is not next.
func (p *parser) expect(word string) error {
	if !p.accept(word) {
		return p.errorf("expected %q, found %q", word, p.next())
	}
	return nil
}

// next returns the text that is next, cut, for errors.
func (p *parser) next() string {
	rest := strings.TrimLeft(p.text[p.at:], " \t\r")
	if n := strings.IndexByte(rest, '\n'); n >= 0 {
		rest = rest[:n]
	}
	if len(rest) > 20 {
		rest = rest[:20]
	}
	return rest
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }

// peek skips space and returns the next byte; 0 at the end.
func (p *parser) peek() byte {
	if p.space() != nil || p.at == len(p.text) {
		return 0
	}
	return p.text[p.at]
}

// takeWhile reads the bytes up to the first that does not fit.
func (p *parser) takeWhile(fits func(c byte) bool) string {
	begin := p.at
	for p.at < len(p.text) && fits(p.text[p.at]) {
		p.at++
	}
	return p.text[begin:p.at]
}

// ident reads a name.
func (p *parser) ident() (string, error) {
	if !isLetter(p.peek()) {
		return "", p.errorf("expected a name, found %q", p.next())
	}
	return p.takeWhile(func(c byte) bool { return isLetter(c) || isDigit(c) }), nil
}

// number reads an unsigned decimal or hexadecimal number up to limit.
func (p *parser) number(limit uint64) (uint64, error) {
	if !isDigit(p.peek()) {
		return 0, p.errorf("expected a number, found %q", p.next())
	}
	text := p.takeWhile(func(c byte) bool { return isDigit(c) || isLetter(c) })
	digits, base := text, 10
	if len(text) > 1 && text[0] == '0' && text[1]|0x20 == 'x' {
		digits, base = text[2:], 16
	}
	n, err := strconv.ParseUint(digits, base, 64)
	if err != nil || n > limit {
		return 0, p.errorf("%q is not a number of 0 to %d", text, limit)
	}
	return n, nil
}

func (p *parser) uint32() (uint32, error) {
	n, err := p.number(math.MaxUint32)
	return uint32(n), err
}

func (p *parser) uint16() (uint16, error) {
	n, err := p.number(math.MaxUint16)
	return uint16(n), err
}

// script reads settings (--name=value) and then statements, until the end.
func (p *parser) script(s *Script) error {
	for {
		if err := p.space(); err != nil {
			return err
		}
		if p.at == len(p.text) {
			return nil
		}
		if strings.HasPrefix(p.text[p.at:], "--") {
			if len(s.Statements) > 0 {
				return p.errorf("a setting must stand before the first statement")
			}
			if err := p.setting(s); err != nil {
				return err
			}
			continue
		}
		st := Statement{Line: p.line()}
		begin := p.at
		if err := p.statement(&st); err != nil {
			return err
		}
		st.Text, _, _ = strings.Cut(p.text[begin:p.at], "//")
		st.Text = strings.TrimSpace(st.Text)
		s.Statements = append(s.Statements, st)
	}
}

// setting reads one setting.
func (p *parser) setting(s *Script) error {
	p.at += 2
	name, err := p.ident()
	if err != nil {
		return err
	}
	if err := p.expect("="); err != nil {
		return err
	}
	if name != "tolerance_usecs" && name != "tcp_ts_tick_usecs" {
		return p.errorf("the setting --%s is not known: there are --tolerance_usecs and --tcp_ts_tick_usecs", name)
	}
	n, err := p.number(1e9)
	if err != nil {
		return err
	}
	d := time.Duration(n) * time.Microsecond
	if name == "tolerance_usecs" {
		s.Tolerance = d
	} else {
		s.Tick = d
	}
	return nil
}

// statement reads a time and then a segment, an ICMP error, an assertion or a call.
func (p *parser) statement(st *Statement) error {
	if err := p.when(&st.When); err != nil {
		return err
	}
	var err error
	switch c := p.peek(); {
	case c == '<' || c == '>':
		p.at++
		st.Inbound = c == '<'
		err = p.packet(st)
	case c == '%':
		st.Checks, err = p.checks()
	case c == '`':
		return p.errorf("shell commands are not supported")
	case isLetter(c):
		st.Call, err = p.call()
	default:
		return p.errorf("expected a segment, a call or a check, found %q", p.next())
	}
	if err != nil {
		return err
	}
	if w := st.When; w.Blocks && st.Call == nil {
		return p.errorf("only a call can block")
	} else if st.Segment == nil && st.ICMP == nil || st.Inbound {
		if w.Kind == AnyTime || !w.Blocks && w.From != w.To {
			return p.errorf("only what leaves may do so at any time or within a range")
		}
	}
	return nil
}

// when reads the time of a statement.
func (p *parser) when(w *When) (err error) {
	if p.accept("*") {
		w.Kind = AnyTime
		return nil
	}
	if p.accept("+") {
		w.Kind = Relative
	}
	if w.From, err = p.seconds(); err != nil {
		return err
	}
	w.To = w.From
	switch {
	case p.accept("~"):
	case p.accept("..."):
		w.Blocks = true
	default:
		return nil
	}
	if p.accept("+") && w.Kind == Absolute {
		return p.errorf("a range is absolute or relative at both ends")
	}
	if w.To, err = p.seconds(); err != nil {
		return err
	}
	if w.To < w.From {
		return p.errorf("the range ends before it begins")
	}
	return nil
}

// seconds reads a decimal fraction exactly.
func (p *parser) seconds() (time.Duration, error) {
	if c := p.peek(); !isDigit(c) && c != '.' {
		return 0, p.errorf("expected a time, found %q", p.next())
	}
	whole := p.takeWhile(isDigit)
	fraction := ""
	if p.at+1 < len(p.text) && p.text[p.at] == '.' && isDigit(p.text[p.at+1]) {
		p.at++
		fraction = p.takeWhile(isDigit)
	} else if p.at < len(p.text) && p.text[p.at] == '.' && !strings.HasPrefix(p.text[p.at:], "..") {
		p.at++
	}
	if whole == "" && fraction == "" || len(whole) > 9 || len(fraction) > 9 {
		return 0, p.errorf("%s.%s is not a time in seconds with at most nine digits on each side", whole, fraction)
	}
	sec, _ := strconv.ParseInt("0"+whole, 10, 64)                                       // digits only
	nanos, _ := strconv.ParseInt(fraction+strings.Repeat("0", 9-len(fraction)), 10, 64) // digits only
	return time.Duration(sec)*time.Second + time.Duration(nanos), nil
}
