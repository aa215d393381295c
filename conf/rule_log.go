package conf

// log reads a log statement: "log" and any number of "destination syslog|stderr|file NAME" and "min-level N", in any order (libvma,
// config_parser.y). It is read so that VMA's files are accepted, and has no effect, as in VMA: see VMA_LOG_FILE and VMA_TRACELEVEL.
func (p *parser) log() error {
	p.read()
	for {
		var err error
		switch t := p.t; {
		case t.is(word, "min-level"):
			err = p.level()
		case t.is(word, "destination"):
			err = p.destination()
		case t.kind == unknown:
			return p.fail(t, "%v: want destination, min-level, use, application-id or log", t)
		default:
			return nil // the token begins the next statement
		}
		if err != nil {
			return err
		}
	}
}

// level reads "min-level N".
func (p *parser) level() error {
	p.read()
	if p.t.kind != number {
		return p.fail(p.t, "%v: want a number", p.t)
	}
	p.read()
	return nil
}

// destination reads "destination syslog|stderr|file NAME". VMA's scanner spells two of the words "ystderr" and "yfile", against VMA's manual:
// both spellings are accepted.
func (p *parser) destination() error {
	p.read()
	switch {
	case p.t.kind == word && (p.t.text == "syslog" || p.t.text == "stderr" || p.t.text == "ystderr"):
		p.read()
	case p.t.kind == word && (p.t.text == "file" || p.t.text == "yfile"):
		if name := p.name(); name.kind != word {
			return p.fail(name, "%v: want the name of a file", name)
		}
		p.read()
	default:
		return p.fail(p.t, "%v: want syslog, stderr or file", p.t)
	}
	return nil
}
