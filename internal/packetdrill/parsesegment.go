package packetdrill

import (
	"encoding/hex"
	"strings"
)

// packet reads a segment or an ICMP error, behind < or >, into st.
func (p *parser) packet(st *Statement) error {
	if p.accept("icmp") {
		return p.icmp(st, false)
	}
	s := &Segment{}
	if p.peek() == '[' {
		if err := p.bracket(st, s); err != nil || st.ICMP != nil {
			return err
		}
	}
	st.Segment = s
	if err := p.flags(s); err != nil {
		return err
	}
	var err error
	if s.Seq, s.End, s.Length, err = p.span(); err != nil {
		return err
	}
	for {
		switch {
		case p.accept("ack"):
			s.HasAck = true
			s.Ack, err = p.uint32()
		case p.accept("win"):
			s.HasWindow = true
			s.Window, err = p.uint16()
		case p.accept("urg"):
			s.HasUrgent = true
			s.Urgent, err = p.uint16()
		case p.accept("<"):
			return p.options(st.Inbound, s)
		default:
			return p.checkAck(st.Inbound, s)
		}
		if err != nil {
			return err
		}
	}
}

var ecnNames = map[string]uint8{"noecn": 0, "ect1": 1, "ect0": 2, "ce": 3}

// bracket reads [ect0], or [1:1001(1000)] in front of an ICMP error.
func (p *parser) bracket(st *Statement, s *Segment) error {
	p.at++
	if isDigit(p.peek()) {
		st.ICMP = &ICMP{HasQuote: true}
		var err error
		if st.ICMP.Seq, _, st.ICMP.Length, err = p.span(); err != nil {
			return err
		}
		if err := p.expect("]"); err != nil {
			return err
		}
		if err := p.expect("icmp"); err != nil {
			return err
		}
		return p.icmp(st, true)
	}
	name, err := p.ident()
	if err != nil {
		return err
	}
	code, ok := ecnNames[name]
	if !ok {
		return p.errorf("[%s] is not one of noecn, ect0, ect1, ce", name)
	}
	s.HasECN, s.ECN = true, code
	return p.expect("]")
}

// flags reads the TCP flags of a segment, or - for none.
func (p *parser) flags(s *Segment) error {
	p.peek()
	text := p.takeWhile(func(c byte) bool { return c == '-' || strings.IndexByte(flagLetters, c) >= 0 })
	if text == "" {
		return p.errorf("expected flags, found %q", p.next())
	}
	for i := range len(text) {
		if k := strings.IndexByte(flagLetters, text[i]); k >= 0 {
			s.Flags |= 1 << k
		} else if text != "-" {
			return p.errorf("%q: - stands for no flag at all", text)
		}
	}
	return nil
}

// maxLength bounds a segment's payload: the longest that an IPv4 packet can hold.
const maxLength = 65495

// span reads seq:seq(len).
func (p *parser) span() (from, to uint32, length int, err error) {
	if from, err = p.uint32(); err != nil {
		return 0, 0, 0, err
	}
	if err = p.expect(":"); err != nil {
		return 0, 0, 0, err
	}
	if to, err = p.uint32(); err != nil {
		return 0, 0, 0, err
	}
	if err = p.expect("("); err != nil {
		return 0, 0, 0, err
	}
	n, err := p.number(maxLength)
	if err != nil {
		return 0, 0, 0, err
	}
	if to-from != uint32(n) {
		return 0, 0, 0, p.errorf("%d:%d is not %d bytes long", from, to, n)
	}
	return from, to, int(n), p.expect(")")
}

// options reads TCP options up to ">"; <...> means any.
func (p *parser) options(inbound bool, s *Segment) error {
	if p.accept("...") {
		if inbound {
			return p.errorf("<...> is for segments that leave")
		}
		s.AnyOptions = true
		return p.expect(">")
	}
	size := 0
	for !p.accept(">") {
		if len(s.Options) > 0 {
			if err := p.expect(","); err != nil {
				return err
			}
		}
		o, n, err := p.option()
		if err != nil {
			return err
		}
		if size += n; size > 40 {
			return p.errorf("the options are longer than 40 bytes")
		}
		s.Options = append(s.Options, o)
	}
	return p.checkAck(inbound, s)
}

// checkAck refuses an arriving segment with ack and without the flag for it, or the other way round. One that is expected to leave may have the
// flag alone: then the number is not compared.
func (p *parser) checkAck(inbound bool, s *Segment) error {
	if inbound && s.HasAck != (s.Flags&ACK != 0) {
		return p.errorf("a segment has the flag . exactly if it has ack")
	}
	return nil
}

// option reads one option and returns its length on the wire.
func (p *parser) option() (o Option, size int, err error) {
	name, err := p.ident()
	if err != nil {
		return o, 0, err
	}
	switch name {
	case "eol":
		return Option{Kind: OptionEnd}, 1, nil
	case "nop":
		return Option{Kind: OptionNop}, 1, nil
	case "sackOK":
		return Option{Kind: OptionSACKPermitted}, 2, nil
	case "mss":
		n, err := p.uint16()
		return Option{Kind: OptionMSS, Value: uint32(n)}, 4, err
	case "wscale":
		n, err := p.number(255)
		return Option{Kind: OptionWindowScale, Value: uint32(n)}, 3, err
	case "TS":
		o.Kind = OptionTimestamps
		if err = p.expect("val"); err != nil {
			return o, 0, err
		}
		if o.Val, err = p.uint32(); err != nil {
			return o, 0, err
		}
		if err = p.expect("ecr"); err != nil {
			return o, 0, err
		}
		o.Ecr, err = p.uint32()
		return o, 10, err
	case "sack":
		o.Kind = OptionSACK
		for isDigit(p.peek()) {
			var b [2]uint32
			if b[0], err = p.uint32(); err != nil {
				return o, 0, err
			}
			if err = p.expect(":"); err != nil {
				return o, 0, err
			}
			if b[1], err = p.uint32(); err != nil {
				return o, 0, err
			}
			o.Blocks = append(o.Blocks, b)
		}
		return o, 2 + 8*len(o.Blocks), nil
	case "raw":
		o.Kind = OptionRaw
		p.peek() // skips the space
		text := p.takeWhile(func(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' })
		if o.Raw, err = hex.DecodeString(text); err != nil || text == "" {
			return o, 0, p.errorf("%q are not bytes in hexadecimal", text)
		}
		return o, len(o.Raw), nil
	}
	return o, 0, p.errorf("the option %s is not known", name)
}

// icmpCodes are the codes of destination unreachable (RFC 792, RFC 1122).
var icmpCodes = map[string]uint8{"net_unreachable": 0, "host_unreachable": 1, "protocol_unreachable": 2, "port_unreachable": 3, "frag_needed": 4,
	"source_route_failed": 5, "net_unknown": 6, "host_unknown": 7, "net_prohibited": 9, "host_prohibited": 10, "admin_prohibited": 13}

// icmp reads an ICMP error. quoted says that the segment that it quotes was given before.
func (p *parser) icmp(st *Statement, quoted bool) error {
	if !st.Inbound {
		return p.errorf("ICMP errors only arrive")
	}
	if st.ICMP == nil {
		st.ICMP = &ICMP{}
	}
	kind, err := p.ident()
	if err != nil {
		return err
	}
	switch kind {
	case "unreachable":
		st.ICMP.Type = 3
		name, err := p.ident()
		if err != nil {
			return err
		}
		code, ok := icmpCodes[name]
		if !ok {
			return p.errorf("the ICMP code %s is not known", name)
		}
		st.ICMP.Code = code
	case "source_quench":
		st.ICMP.Type = 4
	case "time_exceeded":
		st.ICMP.Type = 11
	case "parameter_problem":
		st.ICMP.Type = 12
	default:
		return p.errorf("the ICMP type %s is not known", kind)
	}
	if p.accept("mtu") {
		if st.ICMP.MTU, err = p.uint16(); err != nil {
			return err
		}
	}
	if !quoted && p.accept("[") {
		st.ICMP.HasQuote = true
		if st.ICMP.Seq, _, st.ICMP.Length, err = p.span(); err != nil {
			return err
		}
		return p.expect("]")
	}
	return nil
}
