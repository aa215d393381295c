package conf

import (
	"fmt"
	"net/netip"
	"strings"
)

// RuleError is a mistake in rules.
type RuleError struct {
	Line, Column int    // of the token that is wrong, from 1; columns in bytes
	Text         string // the token, and what was wanted there
}

// Error is place and mistake in a sentence.
func (e *RuleError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Text)
}

// ParseRules reads the text of a rules file in VMA's grammar (see the package's doc). It also accepts xlio and sx for vma, "log destination
// stderr" and "log destination file" as VMA's manual spells them, lines that end in CRLF, and a byte-order mark at the head.
//
// The first mistake is a *RuleError, and then there are no rules at all. Numbers that VMA silently changes are mistakes here: a prefix of
// more than 32 bits, a port above 65535, a part of an address above 255, a range whose first port is the larger one.
func ParseRules(text string) (*Rules, error) {
	r := &Rules{}
	if err := r.parse(text, parser{}); err != nil {
		return nil, fmt.Errorf("conf: rules: %w", err)
	}
	return r, nil
}

// ParseRulesAsVMA reads the text as VMA does, for comparing. It always returns the rules that VMA would have, and the mistake that VMA would
// report, if any: a mistake in the grammar ends the reading and keeps the rules before it; numbers out of range become others.
func ParseRulesAsVMA(text string) (*Rules, error) {
	r := &Rules{}
	return r, r.parse(text, parser{asVMA: true})
}

// With returns a copy of r that also has the rules of text. With prepend they stand at the head of their role's list, where they are tried
// before all others, else at its end. Each rule is put there by itself: of several of a role the last one then stands first. An application-id
// line in text says which group they go to. Of equal rules that were added to a group only the one that is tried first stays, because the
// others would never be reached: memory does not grow with repeated calls.
//
// A mistake is a *RuleError and changes nothing; so is a text without any statement (empty, blanks, remarks). (VMA: add_conf_rule, which
// adds at the head, keeps equal rules, and takes a text without a statement.)
func (r *Rules) With(text string, prepend bool) (*Rules, error) {
	c := r.clone()
	if err := c.parse(text, parser{added: true, prepend: prepend}); err != nil {
		return nil, fmt.Errorf("conf: rule %s: %w", quote(text), err)
	}
	c.added = true
	return c, nil
}

// parse adds the rules of text to r, in the manner that p's fields say. With an error it may have added some of them.
func (r *Rules) parse(text string, p parser) error {
	p.rules = r
	if !p.asVMA {
		text = strings.TrimPrefix(text, "\ufeff") // a byte-order mark, which editors do not count as a column
	}
	p.scanner = scanner{text: text, line: 1, column: 1, asVMA: p.asVMA}
	p.read()
	err := p.statements()
	if err == nil && p.wrong != nil {
		return p.wrong
	}
	return err
}

// parser reads statements and adds their rules. It is a recursive-descent parser with one token of look-ahead.
type parser struct {
	scanner
	t       token  // the token that is to be used next
	rules   *Rules // to which the rules are added
	asVMA   bool   // read as VMA does, with its mistakes
	added   bool   // the text is added at run time, by With
	prepend bool   // its rules go to the head of their list
	wrong   error  // with asVMA: a mistake that VMA reports and reads on
}

// read goes on to the next token.
func (p *parser) read() { p.t = p.next() }

// fail makes the error for a mistake at t.
func (p *parser) fail(t token, format string, args ...any) error {
	return &RuleError{Line: t.line, Column: t.column, Text: fmt.Sprintf(format, args...)}
}

// expect reads past a sign such as ":"; anything else there is an error.
func (p *parser) expect(text string) error {
	if !p.t.is(sign, text) {
		return p.fail(p.t, "%v: want %q", p.t, text)
	}
	p.read()
	return nil
}

// accept reads past a sign if it is the next token, and reports whether it was.
func (p *parser) accept(text string) bool {
	if !p.t.is(sign, text) {
		return false
	}
	p.read()
	return true
}

// statements reads the whole text. A file may have no statement at all; a text that is to add rules (With) must have one.
func (p *parser) statements() error {
	empty := true
	for p.t.kind != ending {
		if p.t.kind == newline {
			p.read()
			continue
		}
		statement, ok := statements[p.t.text]
		if p.t.kind != word || !ok {
			return p.fail(p.t, "%v: want use, application-id or log", p.t)
		}
		if err := statement(p); err != nil {
			return err
		}
		empty = false
	}
	if empty && p.added {
		return p.fail(p.t, "%v: want use, application-id or log", p.t)
	}
	return nil
}

// statements are the parser's methods for statements, by the word that a statement begins with.
var statements = map[string]func(*parser) error{
	"application-id": (*parser).application,
	"use":            (*parser).use,
	"log":            (*parser).log,
}

// application reads "application-id PROGRAM ID": the rules below it are for that program.
func (p *parser) application() error {
	program := p.name()
	if program.kind != word {
		return p.fail(program, "%v: want the name of a program or a pattern", program)
	}
	id := p.name()
	if id.kind != word {
		return p.fail(id, "%v: want an application id or *", id)
	}
	p.rules.selectGroup(program.text, id.text, p.added)
	p.read()
	return nil
}

// transportWords are the words for a transport in a rule; Either is the sign "*".
var transportWords = map[string]Transport{"os": OS, "vma": Offloaded, "xlio": Offloaded, "sx": Offloaded, "sdp": SDP, "sa": SDP}

// use reads "use TRANSPORT ROLE ADDRESS:PORTS[:ADDRESS:PORTS]" and adds the rule.
func (p *parser) use() error {
	rule := Rule{Line: p.t.line}
	p.read()
	transport, ok := transportWords[p.t.text]
	switch {
	case p.t.is(sign, "*"):
		transport = Either
	case !ok || p.t.kind != word:
		return p.fail(p.t, "%v: want os, vma, xlio, sx or *", p.t)
	}
	rule.Transport = transport
	p.read()
	if rule.Role, ok = p.role(); !ok {
		return p.fail(p.t, "%v: want tcp_server, tcp_client, udp_receiver, udp_sender or udp_connect", p.t)
	}
	p.read()
	var err error
	if rule.First, err = p.tuple(); err != nil {
		return err
	}
	if p.accept(":") {
		second, err := p.tuple()
		if err != nil {
			return err
		}
		rule.Second = &second
	}
	if p.added {
		rule.Line, rule.atEnd = 0, !p.prepend
		p.rules.insert(rule)
		return nil
	}
	p.rules.appendRule(rule)
	return nil
}

// role returns the role that the next token names, and false if it names none. It does not read on.
func (p *parser) role() (Role, bool) {
	for r, name := range roleNames {
		if p.t.is(word, name) {
			return Role(r), true
		}
	}
	return 0, false
}

// tuple reads "ADDRESS:PORTS"; PORTS is a port, a range or "*".
func (p *parser) tuple() (t Tuple, err error) {
	if t.Prefix, err = p.prefix(); err != nil {
		return t, err
	}
	if err := p.expect(":"); err != nil {
		return t, err
	}
	if p.accept("*") {
		t.AnyPort = true
		return t, nil
	}
	from := p.t
	if t.First, err = p.port("a port or *"); err != nil {
		return t, err
	}
	t.Last = t.First
	if p.accept("-") {
		if t.Last, err = p.port("a port"); err != nil {
			return t, err
		}
		if t.Last < t.First && !p.asVMA {
			return t, p.fail(from, "ports %d-%d: the first is the larger one", t.First, t.Last)
		}
	}
	return t, nil
}

// prefix reads "A.B.C.D", "A.B.C.D/BITS", or "*", for which it returns the zero Prefix.
func (p *parser) prefix() (netip.Prefix, error) {
	if p.accept("*") {
		return netip.Prefix{}, nil
	}
	var a [4]byte
	from, outOfRange := p.t, false
	for i := range a {
		if i > 0 {
			if err := p.expect("."); err != nil {
				return netip.Prefix{}, err
			}
		}
		if p.t.kind != number {
			return netip.Prefix{}, p.fail(p.t, "%v: want an IPv4 address or *", p.t)
		}
		if p.t.number > 255 {
			if !p.asVMA {
				return netip.Prefix{}, p.fail(p.t, "%v: want 0 to 255", p.t)
			}
			outOfRange = true
		}
		a[i] = byte(p.t.number)
		p.read()
	}
	if outOfRange { // VMA reports it, takes 0.0.0.0 instead and reads on
		a = [4]byte{}
		if p.wrong == nil {
			p.wrong = p.fail(from, "address out of range")
		}
	}
	bits := 32
	if p.accept("/") {
		if p.t.kind != number {
			return netip.Prefix{}, p.fail(p.t, "%v: want a number of bits", p.t)
		}
		if p.t.number > 32 && !p.asVMA {
			return netip.Prefix{}, p.fail(p.t, "/%s: want 0 to 32", cut(p.t.text))
		}
		bits = min(int(p.t.number), 32)
		if p.asVMA {
			bits = min(int(uint8(p.t.number)), 32) // kept in a byte before it is limited
		}
		p.read()
	}
	return netip.PrefixFrom(netip.AddrFrom4(a), bits).Masked(), nil
}

// port reads a port number; wanted is what an error says may stand there. VMA keeps the lower 16 bits of a larger number.
func (p *parser) port(wanted string) (uint16, error) {
	if p.t.kind != number {
		return 0, p.fail(p.t, "%v: want %s", p.t, wanted)
	}
	if p.t.number > 65535 && !p.asVMA {
		return 0, p.fail(p.t, "port %s: want 0 to 65535", cut(p.t.text))
	}
	n := uint16(p.t.number)
	p.read()
	return n, nil
}
