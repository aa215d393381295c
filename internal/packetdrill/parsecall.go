package packetdrill

import (
	"math"
	"strings"
)

// call reads "name(arguments) = result".
func (p *parser) call() (*Call, error) {
	name, err := p.ident()
	if err != nil {
		return nil, err
	}
	c := &Call{Name: name}
	if err := p.expect("("); err != nil {
		return nil, err
	}
	if c.Args, err = p.list(")", 0); err != nil {
		return nil, err
	}
	if !p.accept("=") {
		c.Any = true
		return c, nil
	}
	if p.accept("...") {
		c.Any = true
		return c, nil
	}
	negative := p.accept("-")
	n, err := p.number(math.MaxInt64)
	if err != nil {
		return nil, err
	}
	if c.Value = int64(n); negative {
		c.Value = -c.Value
	}
	if isLetter(p.peek()) {
		if c.Errno, err = p.ident(); err != nil {
			return nil, err
		}
		if c.Errno[0] != 'E' {
			return nil, p.errorf("%s is not the name of an error", c.Errno)
		}
	}
	if p.peek() == '(' { // strerror's text
		n := strings.IndexAny(p.text[p.at:], ")\n")
		if n < 0 || p.text[p.at+n] != ')' {
			return nil, p.errorf("the error's text has no end")
		}
		p.at += n + 1
	}
	return c, nil
}

// maxDepth bounds how deep arguments may nest.
const maxDepth = 8

// list reads arguments separated by commas, and the text end after them.
func (p *parser) list(end string, depth int) ([]Arg, error) {
	if depth > maxDepth {
		return nil, p.errorf("arguments nest deeper than %d", maxDepth)
	}
	var list []Arg
	for !p.accept(end) {
		if list != nil {
			if err := p.expect(","); err != nil {
				return nil, err
			}
		}
		a, err := p.arg(depth)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}

// arg reads one argument: "...", a list, a structure, a string, symbols joined by |, or a number. depth bounds the nesting.
func (p *parser) arg(depth int) (a Arg, err error) {
	switch c := p.peek(); {
	case p.accept("..."):
		return a, nil
	case c == '[':
		p.at++
		a.Kind = ArgList
		a.List, err = p.list("]", depth+1)
		return a, err
	case c == '{':
		p.at++
		a.Kind = ArgStruct
		a.Fields, err = p.fields(depth + 1)
		return a, err
	case c == '"':
		n := strings.IndexAny(p.text[p.at+1:], "\"\n")
		if n < 0 || p.text[p.at+1+n] != '"' {
			return a, p.errorf("the string has no end")
		}
		a.Kind, a.Text = ArgString, p.text[p.at+1:p.at+1+n]
		p.at += n + 2
		return a, nil
	case isLetter(c):
		a.Kind = ArgSymbol
		for {
			name, err := p.ident()
			if err != nil {
				return a, err
			}
			a.Text += name
			if !p.accept("|") {
				return a, nil
			}
			a.Text += "|"
		}
	default:
		negative := p.accept("-")
		n, err := p.number(math.MaxInt64)
		a.Kind, a.Int = ArgInt, int64(n)
		if negative {
			a.Int = -a.Int
		}
		return a, err
	}
}

// fields reads the members of a structure: name=value.
func (p *parser) fields(depth int) (list []Field, err error) {
	if depth > maxDepth {
		return nil, p.errorf("arguments nest deeper than %d", maxDepth)
	}
	for !p.accept("}") {
		if list != nil {
			if err := p.expect(","); err != nil {
				return nil, err
			}
		}
		var f Field
		if f.Name, err = p.ident(); err != nil {
			return nil, err
		}
		if err = p.expect("="); err != nil {
			return nil, err
		}
		if f.Value, err = p.arg(depth); err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

// checks reads %{ assert a == b }%, one assert a line or separated by semicolons.
func (p *parser) checks() (list []Check, err error) {
	if err := p.expect("%{"); err != nil {
		return nil, err
	}
	for {
		for p.accept(";") {
		}
		if p.accept("}%") {
			if list == nil {
				return nil, p.errorf("there is nothing to check")
			}
			return list, nil
		}
		if err := p.expect("assert"); err != nil {
			return nil, err
		}
		c := Check{Line: p.line()}
		if c.Name, err = p.ident(); err != nil {
			return nil, err
		}
		for _, op := range []string{"==", "!=", "<=", ">=", "<", ">"} {
			if p.accept(op) {
				c.Op = op
				break
			}
		}
		if c.Op == "" {
			return nil, p.errorf("expected a comparison, found %q", p.next())
		}
		if isLetter(p.peek()) {
			c.Symbol, err = p.ident()
		} else {
			negative := p.accept("-")
			var n uint64
			n, err = p.number(math.MaxInt64)
			if c.Value = int64(n); negative {
				c.Value = -c.Value
			}
		}
		if err != nil {
			return nil, err
		}
		if p.accept(",") { // what Python would print: the player prints it anyway
			if _, err := p.ident(); err != nil {
				return nil, err
			}
		}
		list = append(list, c)
	}
}
